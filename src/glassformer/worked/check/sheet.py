"""A learner's working laid out by symbol: what was placed where, by what right, and what could not be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from glassformer.worked.check.fit import Cells, Shape
from glassformer.worked.check.own import Own, Table, closeness
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import MASKED
from glassformer.worked.read import Note, Unread


@dataclass(frozen=True, slots=True)
class Placed:
    """Cells of a symbol that one statement gives. A `factor` stands inside a product: what was used, not an answer."""

    symbol: str
    cells: Cells
    line: int
    source: str
    role: Literal["answer", "factor", "echo"] = "answer"


@dataclass(slots=True)
class Sheet:
    """`misshaped`: answers whose size is not the one expected; `used`: operands as a statement sets them out."""

    placed: list[Placed] = field(default_factory=list)
    misshaped: dict[str, Table] = field(default_factory=dict)
    used: dict[str, dict[str, Matrix[Any]]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    struck: list[Unread] = field(default_factory=list)

    def put(self, placed: Placed) -> None:
        self.placed.append(placed)

    def note(self, line: int, source: str, said: str) -> None:
        if not any(note.assumption == said for note in self.notes):  # once is enough
            self.notes.append(Note(line, source, said))

    def leave(self, line: int, source: str, reason: str) -> None:
        self.unread.append(Unread(line, " ".join(source.split())[:400], reason))

    def cross_out(self, line: int, source: str) -> None:
        self.struck.append(Unread(line, " ".join(source.split())[:400], "crossed out, so not judged"))

    def own(self) -> dict[str, Cells]:
        """Every symbol's cells: the last answer counts, unless it only repeats an earlier one to fewer digits; factors
        and echoes only where nothing else is written."""
        found: dict[str, Cells] = {}
        for roles in (("echo",), ("factor",), ("answer",)):
            for placed in self.placed:
                if placed.role in roles:
                    here = found.setdefault(placed.symbol, {})
                    finer = {at for at, own in placed.cells.items() if at in here and _finer(here[at], own)}
                    here |= {at: own for at, own in placed.cells.items() if at not in finer}
        return found

    def answered(self, symbol: str) -> bool:
        return any(placed.symbol == symbol and placed.role == "answer" for placed in self.placed)

    def twice(self) -> list[Note]:
        """Cells that are written more than once with numbers that exclude each other."""
        before: dict[tuple[str, int, int], Own] = {}
        clashes: dict[tuple[str, int], tuple[Placed, list[str]]] = {}
        for placed in (p for p in self.placed if p.role == "answer"):
            for (i, j), own in placed.cells.items():
                first = before.get((placed.symbol, i, j))
                if first is not None and not _agree(first, own):
                    _, said = clashes.setdefault((placed.symbol, placed.line), (placed, []))
                    said.append(f"[{i + 1},{j + 1}] {first.text} in line {first.line}, {own.text} here")
                before[placed.symbol, i, j] = own
        return [
            Note(placed.line, placed.source, f"{symbol} is written again, and the last one counts: {_few(said)}")
            for (symbol, _), (placed, said) in clashes.items()
        ]


def _few(items: list[str]) -> str:
    return "; ".join(items[:2]) + (f"; and {len(items) - 2} more" if len(items) > 2 else "")


def _agree(a: Own, b: Own) -> bool:
    if MASKED in (a.value, b.value):
        return a.value is b.value
    return bool(a.value.overlaps(b.value)) or closeness(a.value, b) == "right"


def _finer(a: Own, b: Own) -> bool:
    """Whether b is a again, to fewer digits."""
    if MASKED in (a.value, b.value) or a.places is None or not _agree(a, b):
        return False
    return b.places < a.places if b.places is not None else b.approximate


def balls(cells: Cells, shape: Shape) -> Matrix[Any]:
    """A symbol's written values; None where nothing is written."""
    return Matrix.of([cells[i, j].value if (i, j) in cells else None for j in range(shape[1])] for i in range(shape[0]))


def used_values(table: Table) -> Matrix[Any] | None:
    """A factor's values, if every cell could be read."""
    if any(cell is None for row in table.rows for cell in row):
        return None
    return Matrix.of([cell.value for cell in row if cell is not None] for row in table.rows)


Given = Mapping[str, Matrix[Any]]
