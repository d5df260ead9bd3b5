"""Tokens and what is done with a stream of them: brackets paired up, alignment marks dropped."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.worked.read import names

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


def indexed(items: list[Token]) -> list[Token]:
    """`w_1,2 =` in plain text has the indices 1 and 2: the three tokens become one. `{=}` is =."""
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


def aligned(items: list[Token]) -> list[Token]:
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


def matched(items: list[Token]) -> dict[int, int]:
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
