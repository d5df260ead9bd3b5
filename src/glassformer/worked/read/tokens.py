"""The lexer: LaTeX, unicode mathematics and plain text as one stream of tokens, each with its line.

One pass, no backtracking; whatever brackets are open is known when it ends (`match`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from glassformer.worked.read import names
from glassformer.worked.read.commands import command

DEEPEST = 40  # brackets inside brackets


class Misread(Exception):
    """A formula, or a part of one, that cannot be read; says why in plain words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Token:
    """kind: number, name, words, op, rel, open, close, row, gap, begin, end, cmd."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    spaced: bool


@dataclass(slots=True)
class Tokens:
    """A formula's tokens; `match[i]` is where the bracket or environment that opens at i closes."""

    source: str
    items: list[Token]
    match: dict[int, int]

    def text(self, low: int, high: int) -> str:
        """The source of the tokens low … high − 1."""
        if low >= high:
            return ""
        return self.source[self.items[low].start : self.items[high - 1].end].strip()


_SCAN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>\d+\{,\}\d+                                 # 0{,}5 is LaTeX for a decimal comma
      | \d{1,3}(?:\\,\d{3})+(?!\d)                          # 12\,000
      | (?:\d+\.\d+|\d)[eE][+\-−]\d{2,4}(?![\d.]) | \d+\.\d+[eE][+\-−]?\d{1,4}(?![\d.^])
      | \d+(?:\.\d+)? | \.\d+)
  | (?P<command>\\(?:[A-Za-z]+\*?|.))
  | (?P<letters>[A-Za-z]+)
  | (?P<rel>==>|-->|:=|=:|==|=>|->|<=|>=|!=|~=)
  | (?P<power>\*\*)
  | (?P<other>.)
    """,
    re.X | re.S,
)
_SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿⁱᵀ⊤", "0123456789-+niTT", strict=True))
_SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉₋ᵢⱼₖₙₘᵥₒₜₛₗₐₓₕ", "0123456789-ijknmvotslaxh", strict=True))
_OPEN = {"(": "(", "[": "[", "{": "{", "⟨": "<", "⌊": "f", "⌈": "f"}
_CLOSE = {")": "(", "]": "[", "}": "{", "⟩": "<", "⌋": "f", "⌉": "f"}


def closing_brace(text: str, start: int) -> int:
    """Where the brace that opens at `start` closes; −1 if it never does."""
    depth = 0
    for found in re.compile(r"\\.|[{}]", re.S).finditer(text, start):
        if found.group() == "{":
            depth += 1
        elif found.group() == "}":
            depth -= 1
            if depth == 0:
                return found.start()
    return -1


class Lexer:
    """Turns `source` into Tokens; `line` is the line in the document on which it begins."""

    def __init__(self, source: str, line: int = 1) -> None:
        self.source, self.line, self.position = source, line, 0
        self.items: list[Token] = []
        self.spaced = False
        self.open = 0
        self.last = len(source.rstrip())

    def run(self) -> Tokens:
        while self.position < len(self.source):
            found = _SCAN.match(self.source, self.position)
            assert found is not None  # the last alternative takes any character
            self.start, self.position = self.position, found.end()
            self._take(found.lastgroup or "other", found.group())
            self.line += self.source.count("\n", self.start, self.position)
        items = _aligned(_indexed(self.items))
        return Tokens(self.source, items, _match(items))

    def add(self, kind: str, text: str) -> None:
        self.items.append(Token(kind, text, self.start, self.position, self.line, self.spaced))
        self.spaced = False
        self.open += (kind in ("open", "begin")) - (kind in ("close", "end"))

    def _take(self, group: str, text: str) -> None:
        if group == "space":
            self.spaced = True
        elif group == "number":
            self._digits(text)
        elif group == "letters":
            self._letters(text)
        elif group == "rel":
            self.add("rel", names.RELATIONS[text])
        elif group == "power":
            self.add("op", "^")
        elif group == "command":
            self._command(text[1:])
        else:
            self._character(text)

    def _digits(self, text: str) -> None:
        """\\frac12 is one half: after a command that takes single digits a number is its digits."""
        text = text.replace("{,}", ".").replace("\\,", "").replace("−", "-").replace("E", "e")
        if self.items and (self.items[-1].kind, self.items[-1].text) == ("cmd", "frac") and text.isdecimal():
            self.add("number", text[0])
            text = text[1:]
        if text:
            self.add("number", text)

    def _point(self) -> None:
        """"..." goes on; "3." in a printed array is a whole number; a point outside brackets ends a sentence."""
        if self.source.startswith("..", self.position):
            self.position += 2
            self.add("name", "…")
        elif self.open > 0 or self.position >= self.last:
            self.spaced = True
        else:
            self.add("op", ";")

    def _letters(self, run: str) -> None:
        """14 x 14 is a product of numbers; T right after ^ is looked at by the parser."""
        for piece in names.split_letters(run):
            self.add("name", piece)

    def _character(self, char: str) -> None:
        if char in _OPEN:
            self.add("open", _OPEN[char])
        elif char in _CLOSE:
            self.add("close", _CLOSE[char])
        elif char == "~":
            self.spaced = True
        elif char in names.RELATIONS:
            self.add("rel", names.RELATIONS[char])
        elif char in names.BIG_SIGNS and char != "Σ":
            self.add("cmd", names.BIG_SIGNS[char])
        elif char in names.OPERATORS:
            self.add("op", names.OPERATORS[char])
        elif char in _SUPER or char in _SUB:
            self._script(char)
        elif char == "∞":
            self.add("cmd", "infty")
        elif char == "…":
            self.add("name", "…")
        elif char == ".":
            self._point()
        elif char.isalpha():
            self.add("name", char)
        elif unicodedata.category(char) == "No":
            self._fraction(char)
        elif char in "$#\"“”`\u200b\ufeff" or not char.isprintable():
            self.spaced = True
        else:
            self.add("other", char)

    def _script(self, char: str) -> None:
        """x² and qᵢ: the raised or lowered characters that follow each other are one script."""
        table, mark = (_SUPER, "^") if char in _SUPER else (_SUB, "_")
        text = table[char]
        while self.position < len(self.source) and self.source[self.position] in table:
            text += table[self.source[self.position]]
            self.position += 1
        self.add("op", mark)
        self.add("open", "{")
        for part in re.findall(r"\d+|.", text):
            kind = "number" if part.isdecimal() else "name" if part.isalpha() else "op"
            self.add(kind, part)
        self.add("close", "{")

    def _fraction(self, char: str) -> None:
        value = unicodedata.numeric(char, None)
        for top in range(1, 10):
            for bottom in range(2, 11):
                if value is not None and abs(top / bottom - value) < 1e-9:
                    for kind, text in (("open", "("), ("number", f"{top}"), ("op", "/"), ("number", f"{bottom}"),
                                       ("close", "(")):  # fmt: skip
                        self.add(kind, text)
                    return
        self.add("other", char)

    def _argument(self) -> str | None:
        """The text in braces that follows, which is consumed; None if none follows."""
        found = re.compile(r"\s*\{").match(self.source, self.position)
        if found is None:
            return None
        end = closing_brace(self.source, found.end() - 1)
        if end < 0:
            raise Misread("a brace { is never closed")
        text = self.source[found.end() : end]
        self.position = end + 1
        return text

    def _command(self, name: str) -> None:
        command(self, name)



def _indexed(items: list[Token]) -> list[Token]:
    """`w_1,2 =` in plain text has the indices 1 and 2: the three tokens become one."""
    kept: list[Token] = []
    for index, token in enumerate(items):
        kept.append(token)
        if len(kept) < 4 or token.kind != "number" or index + 1 == len(items) or items[index + 1].kind != "rel":
            continue
        mark, first, comma, last = kept[-4:]
        tight = first.kind == "number" and not (comma.spaced or last.spaced) and (mark.text, comma.text) == ("_", ",")
        if tight and first.text.isdecimal() and last.text.isdecimal():
            kept[-3:] = [Token("name", f"{first.text},{last.text}", first.start, last.end, first.line, False)]
    return kept


def _aligned(items: list[Token]) -> list[Token]:
    """Outside matrices & next to a relation only lines formulas up; elsewhere it says "and"."""
    kept: list[Token] = []
    inside: list[bool] = [False]  # of a matrix or bracket, where & separates cells
    for index, token in enumerate(items):
        if token.kind in ("open", "begin"):
            inside.append(token.kind == "open" or token.text in names.MATRICES)
        elif token.kind in ("close", "end") and len(inside) > 1:
            inside.pop()
        elif token.kind == "op" and token.text == "&" and not inside[-1]:
            before = kept[-1].kind if kept else "row"
            after = items[index + 1].kind if index + 1 < len(items) else "row"
            if before in ("rel", "row", "begin") or after in ("rel", "row", "end"):
                continue
            token.kind = "words"
        kept.append(token)
    return kept


def _match(items: list[Token]) -> dict[int, int]:
    """Pairs up brackets and environments. A bracket that has no partner is left out, and read as a mistake later."""
    match: dict[int, int] = {}
    stack: list[int] = []
    for index, token in enumerate(items):
        if token.kind in ("open", "begin"):
            stack.append(index)
            if len(stack) > DEEPEST:
                raise Misread(f"brackets nested more than {DEEPEST} deep")
        elif token.kind in ("close", "end"):
            if not stack:
                raise Misread(f"{_shown(token)} closes nothing")
            opened = stack.pop()
            first = items[opened]
            # [0, 1) and (a, b] are intervals; braces and environments must agree
            loose = {first.text, token.text} <= {"(", "[", "f", "<"}
            if (first.kind == "open") != (token.kind == "close") or (first.text != token.text and not loose):
                raise Misread(f"{_shown(first)} is closed by {_shown(token)}")
            match[opened] = index
    if stack:
        raise Misread(f"{_shown(items[stack[-1]])} is never closed")
    return match


def _shown(token: Token) -> str:
    if token.kind in ("begin", "end"):
        return f"\\{token.kind}{{{token.text}}}"
    return {"s": "\\{", "<": "⟨", "f": "⌊"}.get(token.text, token.text) if token.kind == "open" else \
        {"(": ")", "[": "]", "{": "}", "s": "\\}", "<": "⟩", "f": "⌋"}[token.text]


def lex(source: str, line: int = 1) -> Tokens:
    """`source` as tokens, with "x" between two numbers read as times."""
    tokens = Lexer(source, line).run()
    items = tokens.items
    for before, token, after in zip(items, items[1:], items[2:], strict=False):
        if token.kind == "name" and token.text in ("x", "X") and before.kind == after.kind == "number":
            token.kind, token.text = "op", "*"
    return tokens
