"""The lexer: LaTeX, unicode mathematics and plain text as one stream of tokens, each with its line.

One pass, no backtracking.
"""

from __future__ import annotations

import re
import unicodedata

from glassformer.worked.read import names
from glassformer.worked.read.commands import command
from glassformer.worked.read.stream import Misread, Token, Tokens, aligned, indexed, matched

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
_ALONE = re.compile(r"\s*(?:$|[A-Za-z0-9,.;!?])")
_NUMBERED = re.compile(r"\d+\s*[=≈]")  # Head1 = …
_REMARK = re.compile(r"\(\s*[A-Za-z]{3}[A-Za-z ,.]{0,60}\)")
_SMALL_WORDS = frozenset(("and", "for", "where", "with", "then", "so", "if", "or", "is", "to", "we", "get", "from"))
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
        items = aligned(indexed(self.items))
        return Tokens(self.source, items, matched(items))

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
        """Words that stand by themselves are words; `out_1`, `out = `, `sin x` are not."""
        alone = _ALONE.match(self.source, self.position) and (self.items or self.position < self.last)
        script = bool(self.items) and self.items[-1].text in ("_", "^")
        alone = alone and not _NUMBERED.match(self.source, self.position)
        word = len(run) > 2 and run[1:].islower() and run.lower() not in names.FUNCTIONS
        if not script and ((word and alone and not self.open) or run in _SMALL_WORDS):
            self.add("words", run)
            return
        for piece in names.split_letters(run):
            self.add("name", piece)

    def _character(self, char: str) -> None:
        remark = _REMARK.match(self.source, self.start) if char == "(" else None
        if remark and self.items and self.items[-1].kind in ("number", "close", "end"):
            self.position = remark.end()  # 0.53 (rounded)
            self.add("words", remark.group())
        elif char in _OPEN:
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



def lex(source: str, line: int = 1) -> Tokens:
    """`source` as tokens, with "x" between two numbers read as times."""
    tokens = Lexer(source, line).run()
    items = tokens.items
    for before, token, after in zip(items, items[1:], items[2:], strict=False):
        if token.kind == "name" and token.text in ("x", "X") and before.kind == after.kind == "number":
            token.kind, token.text = "op", "*"
    return tokens
