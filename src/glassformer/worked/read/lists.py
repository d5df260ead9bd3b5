"""Brackets and matrices: where one cell ends and the next begins.

`&` and commas separate cells, `\\\\` and semicolons rows; in brackets numbers side by side, as arrays are printed, are
cells too. A comma right between digits may be a decimal comma: where it may, that is said instead of guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.worked.read import names
from glassformer.worked.read.stream import Misread, Token, Tokens
from glassformer.worked.read.term import LONGEST_NUMBER, Blank, Call, Matrix, Term, Unknown, written

Range = tuple[int, int]


class Lists:
    """The part of the parser that deals with brackets."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.at, self.stop = 0, len(tokens.items)
        self.depth = 0
        self.problems: list[tuple[int, str, str]] = []
        self.notes: list[tuple[int, str, str]] = []

    if TYPE_CHECKING:

        def within(self, low: int, high: int) -> Term: ...
        def problem(self, low: int, high: int, reason: str) -> Unknown: ...

    def here(self) -> Token:
        return self.tokens.items[self.at]

    def peek(self, kind: str) -> str:
        """The text of the next token if it is of that kind, else nothing."""
        if self.at < self.stop and self.tokens.items[self.at].kind == kind:
            return self.tokens.items[self.at].text
        return ""

    def note(self, low: int, high: int, assumption: str) -> None:
        self.notes.append((self.tokens.items[low].line, self.tokens.text(low, high), assumption))

    def split(self, low: int, high: int, kind: str, *texts: str) -> list[Range]:
        """The ranges between the tokens of that kind and text that stand outside all brackets."""
        ranges, start, index = [], low, low
        while index < high:
            token = self.tokens.items[index]
            if token.kind == kind and (not texts or token.text in texts):
                ranges.append((start, index))
                start = index + 1
            index = self.tokens.match.get(index, index) + 1
        return [*ranges, (start, high)]

    def find_op(self, text: str, low: int) -> int:
        """Where the sign stands next outside brackets, up to the end of what is being read; −1 if nowhere."""
        index = low
        while index < self.stop:
            if self.is_op(index, text):
                return index
            index = self.tokens.match.get(index, index) + 1
        return -1

    def has_comma(self, opened: int) -> bool:
        return len(self.split(opened + 1, self.tokens.match[opened], "op", ",")) > 1

    def script_range(self) -> Range:
        """The tokens of a script or an argument, which are consumed: a group in braces or a single thing."""
        if self.at >= self.stop:
            raise Misread("something is missing here")
        start = self.at
        if self.here().kind in ("open", "begin"):
            close = self.tokens.match[start]
            self.at = close + 1
            return (start + 1, close) if self.tokens.items[start].text == "{" else (start, close + 1)
        if self.here().kind == "op" and self.here().text in "+-" and start + 1 < self.stop:
            self.at += 1  # 2^-1
        self.at += 1
        return start, self.at

    def arguments(self) -> tuple[Term, ...]:
        """(a, b, c) after a function."""
        opened = self.at
        close = self.tokens.match[opened]
        ranges = self.split(opened + 1, close, "op", ",", ";")
        self.at = close + 1
        return tuple(self.cell(low, high) for low, high in ranges)

    def cell(self, low: int, high: int) -> Term:
        """One cell; if it cannot be read it becomes Unknown, and the other cells are still read."""
        if low >= high:
            return Blank()
        token = self.tokens.items[low]
        if high == low + 1 and token.kind == "number" and len(token.text) < LONGEST_NUMBER and "e" not in token.text:
            return written(token.text)  # what most cells are
        problems = len(self.problems)
        try:
            return self.within(low, high)
        except Misread as error:
            del self.problems[problems:]
            return self.problem(low, high, error.reason)

    def bracketed(self) -> Term:
        """( … ), [ … ], \\{ … \\}: a group if there is one thing in it, otherwise a list or a matrix."""
        opened = self.at
        close = self.tokens.match[opened]
        kind = self.tokens.items[opened].text
        self.at = close + 1
        if kind == "{":
            if close == opened + 1:
                raise Misread("there is nothing between the braces")
            return self.within(opened + 1, close)
        nested = self.nested(opened + 1, close) if kind == "[" else None
        if nested is not None:
            return self.checked(Matrix(nested), opened, close + 1)
        rows = self.rows(opened + 1, close, spaces=kind != "(")
        if kind == "<":
            return Call("inner", rows[0])
        if len(rows) > 1:
            commas = [i for i in range(opened, close) if self.is_op(i, ",")]
            if all(len(row) == 2 for row in rows) and len(commas) == len(rows) and all(map(self.tight_comma, commas)):
                self.note(opened, close + 1, "commas are read as ends of cells and semicolons as ends of rows")
            return self.checked(Matrix(tuple(rows)), opened, close + 1)
        row = rows[0]
        if len(row) == 1:
            return self.alone(row[0], opened, close, kind)
        if all(isinstance(item, Matrix) and item.flat for item in row):  # ((1, 2), (3, 4))
            inner = tuple(item.rows[0] for item in row if isinstance(item, Matrix))
            return self.checked(Matrix(inner), opened, close + 1)
        return Matrix((row,), flat=True)

    def nested(self, low: int, high: int) -> tuple[tuple[Term, ...], ...] | None:
        """[[1, 2], [3, 4]]: the rows, if everything in the brackets is in brackets."""
        parts = self.split(low, high, "op", ",")
        parts = self.spaced(low, high) if len(parts) == 1 else parts
        for start, stop in parts:
            bracket = start < stop and self.tokens.items[start].kind == "open" and self.tokens.items[start].text == "["
            if not bracket or self.tokens.match[start] != stop - 1 or self.tokens.items[start + 1].kind == "begin":
                return None
        return tuple(self.row(start + 1, stop - 1, spaces=True) for start, stop in parts)

    def alone(self, item: Term, opened: int, close: int, kind: str) -> Term:
        """[x] is a group, [101211] perhaps six digits that have lost their gaps."""
        if isinstance(item, Blank):
            raise Misread("there is nothing between the brackets")
        text = self.tokens.items[opened + 1].text
        if kind == "[" and close == opened + 2 and text.isdecimal() and len(text) > 3:
            reason = f"this may be the number {text} or {len(text)} digits side by side: write commas"
            return self.problem(opened, close + 1, reason)
        return item

    def environment(self) -> Term:
        opened = self.at
        close = self.tokens.match[opened]
        name = self.tokens.items[opened].text
        self.at = close + 1
        if name not in names.MATRICES:
            raise Misread(f"the environment {name} is not known inside a formula")
        rows = self.rows(opened + 1, close, spaces=True)
        if rows == [(Blank(),)]:
            raise Misread("the matrix is empty")
        return self.checked(Matrix(tuple(rows)), opened, close + 1)

    def checked(self, matrix: Matrix, low: int, high: int) -> Matrix:
        """Says so when the rows differ in length; the matrix is kept as it stands."""
        lengths = [len(row) for row in matrix.rows]
        if matrix.ragged:
            odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
            entries = "1 entry" if lengths[odd] == 1 else f"{lengths[odd]} entries"
            self.problem(low, high, f"row {odd + 1} of the matrix has {entries}, row 1 has {lengths[0]}")
        return matrix

    def rows(self, low: int, high: int, *, spaces: bool) -> list[tuple[Term, ...]]:
        ranges = [r for part in self.split(low, high, "row") for r in self.split(*part, "op", ";")]
        while len(ranges) > 1 and ranges[-1][0] >= ranges[-1][1]:
            ranges.pop()  # the last \\ ends a row and begins none
        return [self.row(*r, spaces=spaces) for r in ranges]

    def row(self, low: int, high: int, *, spaces: bool) -> tuple[Term, ...]:
        cells = self.split(low, high, "op", "&")
        if len(cells) > 1:
            cells = [(a, b - 1) if b > a and self.is_op(b - 1, ",") else (a, b) for a, b in cells]
            return tuple(self.cell_with_comma(*c) for c in cells)
        cells = self.split(low, high, "op", ",")
        if len(cells) > 1 and cells[-1][0] >= cells[-1][1]:
            cells.pop()  # (1, 2, )
        if len(cells) == 2 and self.doubtful(cells[0][1]):
            return (self.problem(low, high, COMMA),)
        if len(cells) == 1 and spaces:
            bars = self.split(low, high, "op", "|")
            cells = bars if len(bars) == 2 and all(a < b for a, b in bars) else self.spaced(low, high)
        return tuple(self.cell(*c) for c in cells)

    def cell_with_comma(self, low: int, high: int) -> Term:
        if any(self.is_op(i, ",") for i in range(low, high)) and len(self.split(low, high, "op", ",")) > 1:
            return self.problem(low, high, COMMA)
        return self.cell(low, high)

    def is_op(self, index: int, text: str) -> bool:
        token = self.tokens.items[index]
        return token.kind == "op" and token.text == text

    def tight_comma(self, index: int) -> bool:
        """Whether the comma stands right between two whole numbers, as in 0,5."""
        items = self.tokens.items
        if not 0 < index < len(items) - 1:
            return False
        before, comma, after = items[index - 1 : index + 2]
        return (
            before.kind == after.kind == "number" and before.text.isdecimal() and after.text.isdecimal()
            and not comma.spaced and not after.spaced
        )  # fmt: skip

    def doubtful(self, index: int) -> bool:
        """[1,2] is a list; [0,1967] and [0,05] look like one number with a decimal comma."""
        if not self.tight_comma(index):
            return False
        after = self.tokens.items[index + 1].text
        return len(after) > 2 or (len(after) > 1 and after.startswith("0"))

    def spaced(self, low: int, high: int) -> list[Range]:
        """1 2 −3: numbers, or lists, with nothing but space between them."""
        cuts, index, sure = [low], low, False
        while index < high:
            token = self.tokens.items[index]
            if index > low and token.spaced and self.tokens.items[index - 1].kind in ("number", "close", "name"):
                minus = token.kind == "op" and token.text == "-" and index + 1 < high
                after = self.tokens.items[min(index + 1, high - 1)]
                tight = minus and not after.spaced and after.kind == "number"
                if token.kind == "number" or tight or (token.kind == "open" and token.text == "["):
                    cuts.append(index)
                    sure |= not tight
            index = self.tokens.match.get(index, index) + 1
        if len(cuts) > 1 and not sure:
            self.note(low, high, "the space before − is read as the end of a cell, not as a difference")
        return list(zip(cuts, [*cuts[1:], high], strict=True))


COMMA = "the comma may be a decimal comma or separate two numbers: write a point, or a space after the comma"
