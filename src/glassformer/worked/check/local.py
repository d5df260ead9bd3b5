"""Slips that sit in a few cells of one step: rows swapped, a sign dropped, one sum gone wrong.

Each looks at the written cells of a step beside what the step should give from the learner's values before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from glassformer.errors import GlassError
from glassformer.worked.check.fit import Cells
from glassformer.worked.check.own import Own, closeness, shown
from glassformer.worked.check.verdict import ARITHMETIC, Judged
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import MASKED
from glassformer.worked.plan import Operation, Plan, compute

Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Slip:
    """`cells` are those it explains (rows and columns from 0), `value` what the step would be with the slip."""

    name: str
    where: str
    why: str
    cells: frozenset[Place]


def cell_name(symbol: str, row: int, column: int) -> str:
    return f"{symbol}[{row + 1},{column + 1}]"


class Step:
    """A step of the plan with the learner's cells, the wrong ones among them, and what they should be.

    `bases`: the step from the learner's own values, and from the exact ones; `used`: its values where the learner goes
    on with them.
    """

    def __init__(
        self, plan: Plan, symbol: str, own: Cells, wrong: Sequence[Judged], values: Mapping[str, Matrix[Any]],
        bases: tuple[Matrix[Any], Matrix[Any]], used: Sequence[Matrix[Any]] = (),
    ) -> None:  # fmt: skip
        self.plan, self.symbol, self.own, self.wrong, self.values = plan, symbol, own, wrong, values
        self.bases, self.used = bases, used
        self.computed = bases[0]
        self.places = frozenset((symbol, cell.row, cell.column) for cell in wrong)

    def agrees(self, value: Matrix[Any]) -> bool:
        """Whether everything that is written for the step agrees with `value`."""
        if value.shape != self.computed.shape:
            return False
        return all(closeness(value[at], own) != "wrong" for at, own in self.own.items())

    def explains(self, name: str, where: str, why: str) -> Slip:
        return Slip(name, where, why, self.places)

    # -- rows --------------------------------------------------------------------------------------------------------

    def swapped(self) -> Iterator[Slip]:
        """Two rows, or two columns, stand in each other's place."""
        for base, (word, turned) in product(self.bases, (("row", False), ("column", True))):
            value = base.T if turned else base
            lines = sorted({cell.column if turned else cell.row for cell in self.wrong})
            if len(lines) > 2:
                continue
            for a, b in combinations(range(len(value.rows)), 2):
                if not set(lines) <= {a, b}:
                    continue
                order = list(value.rows)
                order[a], order[b] = order[b], order[a]
                made = Matrix(tuple(order))
                if self.agrees(made.T if turned else made):
                    where = f"{word}s {a + 1} and {b + 1} of {self.symbol}"
                    why = f"{word.capitalize()}s {a + 1} and {b + 1} of {self.symbol} have changed places"
                    yield self.explains(f"two {word}s swapped", where, why)

    # -- signs -------------------------------------------------------------------------------------------------------

    def signs(self) -> Iterator[Slip]:
        """Every wrong cell has the right size and the wrong sign; or one sign among the operands was lost."""
        here = [(cell, self.computed[cell.row, cell.column]) for cell in self.wrong]
        if all(cell.own is not None and _negated(value, cell.own) for cell, value in here):
            names = ", ".join(cell_name(self.symbol, cell.row, cell.column) for cell, _ in here)
            cell, value = here[0]
            why = f"{names} should be {shown(value, cell.own)}: the number is right, its sign is not"
            yield self.explains("a sign dropped", names, why)
            return
        operation = self.plan[self.symbol]
        if operation.op not in ("matmul", "linear"):
            return
        for name in dict.fromkeys(operation.inputs):
            for i, j, x in self.values[name].cells():
                if x is not MASKED and x < 0:
                    yield from self._with_entry(operation, name, i, j, -x)

    def _with_entry(self, operation: Operation, name: str, i: int, j: int, x: Any) -> Iterator[Slip]:
        rows = [list(row) for row in self.values[name]]
        rows[i][j] = x
        try:
            made = compute(self.plan, operation, ARITHMETIC, {**self.values, name: Matrix.of(rows)}, {})
        except GlassError:
            return
        if self.agrees(made):
            entry = cell_name(name, i, j)
            why = f"{self.symbol} comes out as you wrote it if {entry} is {shown(x)} where it is {shown(-x)}"
            yield self.explains("a sign dropped", f"{entry} in {self.symbol}", why)

    # -- one cell ----------------------------------------------------------------------------------------------------

    def single(self) -> Iterator[Slip]:
        """Cells that stand alone: what went wrong in each, as far as a sum of products tells."""
        operation = self.plan[self.symbol]
        for cell in self.wrong:
            if cell.own is None:
                continue
            value = self.computed[cell.row, cell.column]
            where = cell_name(self.symbol, cell.row, cell.column)
            place = frozenset({(self.symbol, cell.row, cell.column)})
            if operation.op in ("copy", "concat"):
                why = f"{where} is copied: {shown(value, cell.own)} became {cell.own.text}"
                yield Slip("a number copied wrongly", where, why, place)
                continue
            name, why = self._reason(operation, cell, value)
            said = f"{where} should be {shown(value, cell.own)} from your numbers before it, {cell.own.text} is written"
            if value is not MASKED and any(value.overlaps(used[cell.row, cell.column]) for used in self.used):
                why = f"you go on with {shown(value, cell.own)}, so it may be no more than a slip of the pen"
            yield Slip(name, where, said + (f": {why}" if why else ""), place)

    def _reason(self, operation: Operation, cell: Judged, value: Any) -> tuple[str, str]:
        generic = "one arithmetic slip in one cell"
        if cell.own is None or value is MASKED or cell.own.value is MASKED:
            return generic, ""
        if _negated(value, cell.own):
            return "a sign dropped", "the number is right, its sign is not"
        if operation.op not in ("matmul", "linear"):
            return generic, ""
        found = list(self._terms(operation, cell, value))
        if len({why for _, why in found}) == 1:
            return found[0]
        return generic, ""

    def _terms(self, operation: Operation, cell: Judged, value: Any) -> Iterator[tuple[str, str]]:
        """One product of the sum left out, counted twice, with its sign lost, or added where it is multiplied."""
        generic = "one arithmetic slip in one cell"
        first, second = (
            self.values[n.removesuffix("^T")].T if n.endswith("^T") else self.values[n] for n in operation.operands[:2]
        )
        for x, y in zip(first.rows[cell.row], second.T.rows[cell.column], strict=True):
            if x is MASKED or y is MASKED or (x * y).contains(0) or cell.own is None:
                continue
            term = f"{shown(x)}·{shown(y)}"
            if closeness(value - x * y, cell.own) == "right":
                yield generic, f"the product {term} is left out"
            if closeness(value + x * y, cell.own) == "right":
                yield generic, f"the product {term} is counted twice"
            if closeness(value - 2 * x * y, cell.own) == "right":
                yield "a sign dropped", f"the product {term} has the wrong sign"
            if closeness(value - x * y + x + y, cell.own) == "right":
                yield generic, f"{shown(x)} and {shown(y)} are added, not multiplied"


def _negated(value: Any, own: Own) -> bool:
    return value is not MASKED and not value.contains(0) and closeness(-value, own) == "right"
