"""The lexer: converts LaTeX, Unicode mathematics and plain text to one stream of tokens, each with its line.

One pass without backtracking; then brackets are matched and alignment marks dropped.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from glassformer.exercises.reader import symbols

DEEPEST = 40  # maximum nesting of brackets


class Misread(Exception):
    """Raised when a formula, or a part of one, cannot be parsed; the message explains why in plain language."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Token:
    """A token. kind: number, name, words, op, rel, open, close, row, gap, begin, end, cmd."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    spaced: bool


@dataclass(slots=True)
class TokenList:
    """The tokens of a formula; `match[i]` is where the bracket or environment that opens at i closes."""

    source: str
    items: list[Token]
    match: dict[int, int]

    def text(self, low: int, high: int) -> str:
        """Return the source of the tokens low … high − 1."""
        if low >= high:
            return ""
        return self.source[self.items[low].start : self.items[high - 1].end].strip()


def indexed(items: list[Token]) -> list[Token]:
    """Merge plain-text indices: `w_1,2 =` has the indices 1 and 2, so three tokens become one. `{=}` is =."""
    kept: list[Token] = []
    for index, token in enumerate(items):
        kept.append(token)
        if token.kind == "close" and [t.kind for t in kept[-3:]] == ["open", "rel", "close"]:
            kept[-3:] = [kept[-2]]
            continue
        if len(kept) < 4 or token.kind != "number" or index + 1 == len(items) or items[index + 1].kind != "rel":
            continue
        mark, first, comma, last = kept[-4:]
        tight = first.kind == "number" and not (comma.spaced or last.spaced) and (mark.text, comma.text) == ("_", ",")
        if tight and first.text.isdecimal() and last.text.isdecimal():
            kept[-3:] = [Token("name", f"{first.text},{last.text}", first.start, last.end, first.line, False)]
    return kept


def resolve_alignment(items: list[Token]) -> list[Token]:
    """Resolve &: outside matrices, next to a relation it only aligns formulas; elsewhere it means "and"."""
    kept: list[Token] = []
    inside: list[bool] = [False]  # whether inside a matrix or bracket, where & separates cells
    for index, token in enumerate(items):
        if token.kind in ("open", "begin"):
            inside.append(token.kind == "open" or token.text in symbols.MATRICES)
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


def match_brackets(items: list[Token]) -> dict[int, int]:
    """Match brackets and environments. Unmatched brackets are left out, and reported as a mistake later."""
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
    """Return where the brace that opens at `start` closes; −1 if it never does."""
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
    """Converts `source` to Tokens; `line` is the line in the document on which it begins."""

    def __init__(self, source: str, line: int = 1) -> None:
        self.source, self.line, self.position = source, line, 0
        self.items: list[Token] = []
        self.spaced = False
        self.open = 0
        self.last = len(source.rstrip())

    def run(self) -> TokenList:
        while self.position < len(self.source):
            found = _SCAN.match(self.source, self.position)
            assert found is not None  # the last alternative matches any character
            self.start, self.position = self.position, found.end()
            self._take(found.lastgroup or "other", found.group())
            self.line += self.source.count("\n", self.start, self.position)
        items = resolve_alignment(indexed(self.items))
        return TokenList(self.source, items, match_brackets(items))

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
            self.add("rel", symbols.RELATIONS[text])
        elif group == "power":
            self.add("op", "^")
        elif group == "command":
            self._command(text[1:])
        else:
            self._character(text)

    def _digits(self, text: str) -> None:
        """\\frac12 is one half: after a command that takes single digits, a number is split into digits."""
        text = text.replace("{,}", ".").replace("\\,", "").replace("−", "-").replace("E", "e")
        if self.items and (self.items[-1].kind, self.items[-1].text) == ("cmd", "frac") and text.isdecimal():
            self.add("number", text[0])
            text = text[1:]
        if text:
            self.add("number", text)

    def _point(self) -> None:
        """Tokenize a point: "..." is an ellipsis, "3." in an array an integer; outside brackets it ends a sentence."""
        if self.source.startswith("..", self.position):
            self.position += 2
            self.add("name", "…")
        elif self.open > 0 or self.position >= self.last:
            self.spaced = True
        else:
            self.add("op", ";")

    def _letters(self, run: str) -> None:
        """Tokenize letters. Standalone words are words; `out_1`, `out = `, `sin x` are not."""
        alone = _ALONE.match(self.source, self.position) and (self.items or self.position < self.last)
        script = bool(self.items) and self.items[-1].text in ("_", "^")
        alone = alone and not _NUMBERED.match(self.source, self.position)
        word = len(run) > 2 and run[1:].islower() and run.lower() not in symbols.FUNCTIONS
        if not script and ((word and alone and not self.open) or run in _SMALL_WORDS):
            self.add("words", run)
            return
        for piece in symbols.split_letters(run):
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
        elif char in symbols.RELATIONS:
            self.add("rel", symbols.RELATIONS[char])
        elif char in symbols.BIG_SIGNS and char != "Σ":
            self.add("cmd", symbols.BIG_SIGNS[char])
        elif char in symbols.OPERATORS:
            self.add("op", symbols.OPERATORS[char])
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
        """Tokenize x² and qᵢ: consecutive superscript or subscript characters form one script."""
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
        """Consume and return the following text in braces; None if there is none."""
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



def lex(source: str, line: int = 1) -> TokenList:
    """Tokenize `source`, reading "x" between two numbers as multiplication."""
    tokens = Lexer(source, line).run()
    items = tokens.items
    for before, token, after in zip(items, items[1:], items[2:], strict=False):
        if token.kind == "name" and token.text in ("x", "X") and before.kind == after.kind == "number":
            token.kind, token.text = "op", "*"
    return tokens


_LETTERS = re.compile(r"[A-Za-z]+")
_AFTER_TEXT = re.compile(r"\s*(?:[_^(=]|\\left|\\approx|:=)")


def command(lexer: Lexer, name: str) -> None:
    """Consume the command `name` and its arguments from the lexer's source."""
    plain = name.removesuffix("*")
    if name in symbols.SPACES:
        lexer.spaced = True
    elif name in symbols.GAPS:
        lexer.add("gap", name)
    elif name in ("\\", "cr", "newline", "tabularnewline"):
        _row(lexer)
    elif name in symbols.BRACKETS:
        lexer.add(*symbols.BRACKETS[name])
    elif plain in ("begin", "end"):
        _environment(lexer, plain)
    elif plain in symbols.TEXTS:
        _text(lexer)
    elif name in symbols.UPRIGHT or plain in symbols.UPRIGHT:
        _upright(lexer)
    elif plain in symbols.WITH_ARGUMENT or plain in ("textcolor", "colorbox", "raisebox"):
        lexer._argument()
    elif plain in symbols.FONTS:
        lexer.spaced = True
    elif plain in symbols.LOOKS:
        _looks(lexer, plain)
    elif plain in ("xrightarrow", "xRightarrow", "xlongrightarrow"):
        lexer._argument()
        lexer.add("rel", "→")
    elif plain in ("overset", "underset", "stackrel"):
        lexer._argument()
    else:
        _sign(lexer, plain)


def _sign(lexer: Lexer, name: str) -> None:
    if name in ("%", "$", "#", "&", "_"):
        if name in "%&":
            lexer.add("op" if name == "%" else "words", name)
    elif name == "|":
        lexer.add("op", "‖")
    elif name == "sqrt":
        lexer.add("cmd", "sqrt")
    elif name in symbols.FUNCTIONS:
        lexer.add("name", name)
    elif name in symbols.RELATIONS:
        lexer.add("rel", symbols.RELATIONS[name])
    elif name in symbols.OPERATORS:
        lexer.add("op", symbols.OPERATORS[name])
    elif name == "pi":
        lexer.add("cmd", "pi")
    elif name in symbols.SYMBOLS:
        lexer.add("name", symbols.SYMBOLS[name])
    elif name in ("dfrac", "tfrac", "cfrac", "nicefrac", "sfrac"):
        lexer.add("cmd", "frac")
    else:
        lexer.add("cmd", symbols.BIG.get(name, name))


def _row(lexer: Lexer) -> None:
    """Consume `\\\\`, including an optional spacing argument: `\\\\[2pt]`."""
    found = re.compile(r"\s*\[-?[\d.]*\s*(?:pt|em|ex|mm|cm|in)\]").match(lexer.source, lexer.position)
    if found:
        lexer.position = found.end()
    lexer.add("row", "\\\\")


def _environment(lexer: Lexer, which: str) -> None:
    name = (lexer._argument() or "").strip().removesuffix("*")
    if which == "begin" and name in ("array", "alignedat", "tabular", "subarray"):
        found = re.compile(r"\s*\[[tbc]\]").match(lexer.source, lexer.position)
        if found:
            lexer.position = found.end()
        lexer._argument()  # the column specification: {cc|c}
    elif which == "begin" and name in symbols.MATRICES:
        found = re.compile(r"\s*\[[lcr]\]").match(lexer.source, lexer.position)
        if found:
            lexer.position = found.end()
    lexer.add(which, name)


def _text(lexer: Lexer) -> None:
    """Tokenize text: `\\text{out}_1` and `\\text{softmax}(…)` are names, `\\text{ where }` is words."""
    text = lexer._argument()
    if text is None:
        return
    word = text.strip()
    named = _LETTERS.fullmatch(word) and text == word and _AFTER_TEXT.match(lexer.source, lexer.position)
    if (named and word.lower() not in ("and", "or", "so", "with", "where", "if", "then", "for")) or (
        word.lower() in symbols.FUNCTIONS
    ):
        lexer.add("name", word)
    elif word in ("T", "t") and lexer.items and lexer.items[-1].text == "^":
        lexer.add("name", "T")
    elif lexer.items and lexer.items[-1].text in ("_", "^") and word:
        lexer.add("name", word)
    elif word:
        lexer.add("words", " ".join(word.split()))


def _upright(lexer: Lexer) -> None:
    found = re.compile(r"\s*\{\s*([A-Za-z]+)\s*\}").match(lexer.source, lexer.position)
    if found:
        lexer.position = found.end()
        lexer.add("name", found.group(1))
    else:
        lexer.spaced = True


def _looks(lexer: Lexer, name: str) -> None:
    if name in ("left", "right", "middle"):
        found = re.compile(r"\s*\.").match(lexer.source, lexer.position)
        if found:  # \left. and \right. draw nothing
            lexer.position = found.end()
            braces = [token.kind for token in lexer.items if token.text == "s" and token.kind in ("open", "close")]
            if name == "right" and braces.count("open") > braces.count("close"):
                lexer.add("close", "s")  # the brace of a system of equations
    elif name == "cline":
        lexer._argument()
    lexer.spaced = True
