"""A document cut into pieces: prose, formulas, code, tables, each with its line and whether it is crossed out.

One pass from left to right. A closing mark that is not found once is not looked for again, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

PieceKind: TypeAlias = Literal["prose", "inline", "display", "code", "table", "tabular", "picture", "open"]

MATRICES = frozenset(("matrix", "bmatrix", "pmatrix", "Bmatrix", "vmatrix", "Vmatrix", "array", "smallmatrix"))
DISPLAYS = MATRICES | frozenset(
    ("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "alignat", "aligned",
     "split", "gathered", "dmath")
)  # fmt: skip
CODE = frozenset(("verbatim", "lstlisting", "minted", "Verbatim", "alltt"))
TABULARS = frozenset(("tabular", "tabularx", "tabulary", "longtable"))
_DROPPED = frozenset(("comment", "tikzpicture", "thebibliography"))


@dataclass(frozen=True, slots=True)
class Piece:
    kind: PieceKind
    text: str
    line: int
    crossed: bool = False


_MARK = re.compile(
    r"""
    (?P<escaped>\\\\|\\\$)
  | (?P<fence>^[ \t]*(?:```|~~~)[^\n]*\n)
  | (?P<table>^(?:[ \t]*\|[^\n]*|[^\n|]*\|[^\n]*)\n[ \t]*\|?[ \t]*:?-{1,}:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$)
  | (?P<tabs>^[^\n\t]+\t)
  | (?P<comment><!--)
  | (?P<display>\$\$|\\\[)
  | (?P<inline>\\\(|\$)
  | (?P<begin>\\begin\{(?P<env>[A-Za-z]+)\*?\})
  | (?P<strike>~~|</?(?:del|s|strike)>)
  | (?P<tick>`+)
  | (?P<picture>!\[[^\]\n!]{0,200}\]\([^)\n]{0,300}\)|<img\b[^<>\n]{0,300}>
      | \\includegraphics(?:\[[^\]\n]{0,200}\])?\{[^}\n]{0,300}\})
    """,
    re.X | re.M,
)


class _Cutter:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.counted = text, 0, 1, 0
        self.crossed = False
        self.missing: set[str] = set()
        self.ends = -1
        self.before = False
        self.shown = 0  # where the last piece ended

    def line_at(self, position: int) -> int:
        """The line of a position that is never before the last one asked for."""
        self.line += self.text.count("\n", self.counted, position)
        self.counted = position
        return self.line

    def find(self, close: str, start: int) -> int:
        if close in self.missing:
            return -1
        found = self.text.find(close, start)
        if found < 0:
            self.missing.add(close)
        return found

    def run(self) -> Iterator[Piece]:
        start = 0
        while (mark := _MARK.search(self.text, self.at)) is not None:
            self.at = mark.end()
            pieces = self.take(mark)
            if pieces is None:
                continue
            stop = min([mark.start(), *(position for _, _, position in pieces[:1])])
            if start < stop:
                yield Piece("prose", self.text[start:stop], self.line_at(start), self.before)
            for kind, text, position in pieces:
                yield Piece(kind, text, self.line_at(position), self.crossed)
            start = self.shown = self.at
        if start < len(self.text):
            yield Piece("prose", self.text[start:], self.line_at(start), self.crossed)

    def take(self, mark: re.Match[str]) -> list[tuple[PieceKind, str, int]] | None:
        """What begins at a mark; None if it is only text. Moves on to its end."""
        self.before = self.crossed
        start, end = mark.span()
        match mark.lastgroup:
            case "fence":
                return self.until("\n" + mark.group().strip()[:3], "code", end, after_line=True)
            case "comment":
                close = self.find("-->", end)
                self.at = close + 3 if close >= 0 else end
                return []
            case "display":
                return self.until("$$" if mark.group() == "$$" else r"\]", "display", end)
            case "inline":
                return self.until(r"\)", "inline", end) if mark.group() != "$" else self.dollars(end)
            case "begin" | "env":
                return self.environment(mark)
            case "strike":
                opens = not self.crossed if mark.group() == "~~" else not mark.group().startswith("</")
                # ~~ that never closes, or closes in another paragraph, is not a strike
                if opens and mark.group() == "~~" and not 0 <= self.find("~~", end) < self.paragraph(end):
                    return None
                self.crossed = opens
                return []
            case "tick":
                return self.until(mark.group(), "code", end, same_paragraph=True)
            case "picture":
                return [("picture", mark.group(), start)]
            case "table":
                return self.lines(start, lambda line: "|" in line, "table")
            case "tabs" if mark.group().strip():
                return self.lines(start, lambda line: "\t" in line.strip(" "), "table")
        return None

    def paragraph(self, start: int) -> int:
        """Where the paragraph ends."""
        if self.ends < start:
            found = re.compile(r"\n[ \t]*\n").search(self.text, start)
            self.ends = found.start() if found else len(self.text)
        return self.ends

    def until(
        self, close: str, kind: PieceKind, start: int, *, after_line: bool = False, same_paragraph: bool = False
    ) -> list[tuple[PieceKind, str, int]] | None:
        end = self.find(close, start)
        if end < 0 and kind == "code":
            return None
        if same_paragraph and end > self.paragraph(start):
            return None
        if kind == "display" and end > self.paragraph(start) and _PROSE.search(self.text, start, end):
            end = -1  # two formulas, of which the first was never closed
        if end < 0:
            end = self.paragraph(start)
            self.at = end
            return [("open", self.text[start:end], start)]
        self.at = end + len(close)
        if after_line:
            newline = self.text.find("\n", self.at)
            self.at = newline if newline >= 0 else len(self.text)
        return [(kind, self.text[start:end], start)]

    def dollars(self, start: int) -> list[tuple[PieceKind, str, int]] | None:
        """$…$ within a paragraph; "$5 and $10" is money."""
        found = _DOLLAR.search(self.text, start)
        if found is None or found.group() != "$":
            return None
        inside = self.text[start : found.start()]
        if inside[:1].isdecimal() and inside[-1:].isspace() and _WORD.search(inside) and "\\" not in inside:
            return None
        self.at = found.end()
        return [("inline", inside, start)]

    def environment(self, mark: re.Match[str]) -> list[tuple[PieceKind, str, int]] | None:
        name = mark["env"]
        if name not in DISPLAYS | CODE | TABULARS | _DROPPED:
            return None
        star = "*" if mark.group("begin").endswith("*}") else ""
        close = f"\\end{{{name}{star}}}"
        end = self.find(close, mark.end())
        if end < 0:
            end = self.paragraph(mark.end())
            self.at = end
            return [("open", self.text[mark.start() : end], mark.start())]
        self.at = end + len(close)
        if name in _DROPPED:
            return []
        if name in CODE:
            return [("code", self.text[mark.end() : end], mark.end())]
        if name in TABULARS:
            return [("tabular", self.text[mark.end() : end], mark.end())]
        start = mark.start() - self.led_by(mark.start())
        while name in MATRICES and (more := _GOES_ON.match(self.text, self.at)) is not None:
            self.at = more.end()  # [..] [..] = [..] without any dollars
            if more["env"] is not None:
                end = self.find(f"\\end{{{more['env']}}}", self.at)
                self.at = end + len(more["env"]) + 6 if end >= 0 else self.paragraph(self.at)
            elif more.end() == more.start() or self.text[self.at : self.at + 1] in ("\n", ""):
                break
        return [("display", self.text[start : self.at], start)]

    def led_by(self, start: int) -> int:
        """How much of `Q = ` stands before a matrix that has no dollars around it."""
        found = _LED.search(self.text[max(self.shown, start - 80) : start])
        return len(found.group()) if found else 0

    def lines(self, start: int, belongs: Callable[[str], bool], kind: PieceKind) -> list[tuple[PieceKind, str, int]]:
        """The lines from `start` on that belong together."""
        end = start
        while end < len(self.text):
            newline = self.text.find("\n", end)
            newline = len(self.text) if newline < 0 else newline
            if not belongs(self.text[end:newline]):
                break
            end = newline + 1
        self.at = min(end, len(self.text))
        return [(kind, self.text[start : self.at], start)]


_DOLLAR = re.compile(r"(?<!\\)\$|\n[ \t]*\n")
# what may stand before a bare matrix, and after it on the same line or as the next matrix
_LED = re.compile(r"(?:\S{1,40}[ \t]*(?:=|≈|\\approx)|\\left[(\[])[ \t]*\n?[ \t]*$")
_GOES_ON = re.compile(
    r"[ \t]*\n?[ \t]*(?:\\(?:cdot|times|right[)\]]|left[(\[]|approx|,|;)|[=≈·×*+^_−-]|\{[^{}\n]{0,40}\}|\\top|T\b"
    r"|\([0-9\\ a-z]{1,20}\))*[ \t]*\n?[ \t]*"
    r"(?:\\begin\{(?P<env>[bpBvV]?matrix|smallmatrix|array)\}|[-+]?[0-9][0-9.]*(?=\s|$)|(?=\n|$))"
)
_PROSE = re.compile(r"(?:(?<![\\A-Za-z{])[A-Za-z]{3,}[,.:]?\s+){4}")
_WORD = re.compile(r"[A-Za-z]{3,}")


def pieces(text: str) -> Iterator[Piece]:
    """The document in order; what a crossed-out stretch holds is marked."""
    return _Cutter(text).run()
