"""The verdict on each cell, by interval arithmetic.

A written 0.1967 stands for every number that rounds to it. A cell is
- **right** if the exact value rounds to what is written (an exact form: if it is equal);
- **follows** if what is written follows from the learner's own earlier numbers: each operand as it was written, as the
  learner's numbers before it make it, as the statement itself sets it out, or as it should be;
- **rounded** if it is one unit of the last digit off either of these;
- **wrong** otherwise.
So a correctly rounded number is never wrong, and a wrong last digit is never right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal, TypeAlias

from flint import arb

from glassformer.errors import GlassError
from glassformer.worked.arithmetic import BallArithmetic
from glassformer.worked.check.fit import Cells
from glassformer.worked.check.own import AS_GOOD_AS_MASKED, Own, closeness
from glassformer.worked.check.sheet import Sheet, balls
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import MASKED
from glassformer.worked.plan import Operation, Plan, compute, evaluate

ARITHMETIC = BallArithmetic(320)  # 4 digits after the point of e^150 need 230 bits
MOST_WAYS = 40
Verdict: TypeAlias = Literal["right", "follows", "rounded", "wrong", "missing"]
Values: TypeAlias = Mapping[str, Matrix[Any]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell (row and column from 0), what it should be, and what it should be given the learner's earlier values."""

    symbol: str
    row: int
    column: int
    own: Own | None
    exact: Any
    follow: Any
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """All written cells of computed symbols; `exact` values, and `computed`: each from the learner's values before."""

    cells: tuple[Judged, ...]
    exact: Values
    computed: Values

    def of(self, symbol: str) -> tuple[Judged, ...]:
        return tuple(cell for cell in self.cells if cell.symbol == symbol)


def exactly(plan: Plan) -> dict[str, Matrix[Any]]:
    return evaluate(plan, ARITHMETIC)


def judge(plan: Plan, sheet: Sheet, exact: Values | None = None, own: Mapping[str, Cells] | None = None) -> Judgement:
    """Every written cell against the exact value and against what follows from the cells before it."""
    return Judge(plan, sheet, exactly(plan) if exact is None else exact, sheet.own() if own is None else own).run()


class Judge:
    def __init__(self, plan: Plan, sheet: Sheet, exact: Values, own: Mapping[str, Cells]) -> None:
        self.plan, self.sheet, self.exact = plan, sheet, exact
        self.own = {symbol: own[symbol] for symbol in (*plan.given, *plan.symbols) if symbol in own}
        self.own = {symbol: cells for symbol, cells in self.own.items() if self._inside(symbol, cells)}
        self.values: dict[str, Matrix[Any]] = {}
        self.computed: dict[str, Matrix[Any]] = {}
        self.mended: dict[str, Matrix[Any]] = {}
        self.given = {
            symbol: self._masked(symbol, balls(cells, exact[symbol].shape)) for symbol, cells in self.own.items()
        }

    def _inside(self, symbol: str, cells: Cells) -> bool:
        rows, columns = self.exact[symbol].shape
        return all(i < rows and j < columns for i, j in cells)

    def _masked(self, symbol: str, written: Matrix[Any]) -> Matrix[Any]:
        """−10⁹ where −∞ belongs is −∞ for what follows; −∞ that is no score cannot be computed with."""

        def cell(x: Any, exact: Any) -> Any:
            if x is MASKED:
                return x if symbol[0] == "S" else None
            return MASKED if exact is MASKED and x is not None and x < AS_GOOD_AS_MASKED else x

        return written.zip(self.exact[symbol], cell)

    def run(self) -> Judgement:
        cells: list[Judged] = []
        with ARITHMETIC.precision():
            for symbol in self.plan.given:
                self.computed[symbol] = self.exact[symbol]
                self.values[symbol] = self._filled(symbol, self.exact[symbol])
                self.mended[symbol] = self._mend(symbol, self.exact[symbol])
            for operation in self.plan.operations:
                symbol = operation.symbol
                ways = self._compute(operation, self.values, self.given)
                self.computed[symbol] = ways[0]
                self.values[symbol] = self._filled(symbol, ways[0])
                cells.extend(self._symbol(operation, ways))
                self.mended[symbol] = self._mend(symbol, self._compute(operation, self.mended, self.given)[0])
        return Judgement(tuple(cells), self.exact, self.computed)

    def _compute(self, operation: Operation, values: Values, given: Values) -> list[Matrix[Any]]:
        """All that the operation may give; with weights also as the numbers stand, and as their sum of 1 allows."""
        weights = next((name for name in operation.inputs if self._is_weights(name)), None)
        if operation.op != "matmul" or weights is None:
            return [compute(self.plan, operation, ARITHMETIC, values, given)]
        return mixed(self.plan, operation, values, given, weights)

    def _is_weights(self, name: str) -> bool:
        return name in self.given and name in self.plan and self.plan[name].op == "softargmax"

    def _filled(self, symbol: str, computed: Matrix[Any]) -> Matrix[Any]:
        written = self.given.get(symbol)
        return computed if written is None else written.zip(computed, lambda own, here: here if own is None else own)

    def _mend(self, symbol: str, computed: Matrix[Any]) -> Matrix[Any]:
        """The written values, with those that do not follow replaced by those that do."""
        own = self.own.get(symbol, {})
        return Matrix.of(
            [
                self.given[symbol][i, j] if (i, j) in own and closeness(here, own[i, j]) != "wrong" else here
                for j, here in enumerate(row)
            ]
            for i, row in enumerate(computed)
        )

    def _symbol(self, operation: Operation, ways: list[Matrix[Any]]) -> Iterator[Judged]:
        symbol = operation.symbol
        others: list[Matrix[Any]] | None = None
        for (i, j), own in sorted(self.own.get(symbol, {}).items()):
            exact, follow = self.exact[symbol][i, j], ways[0][i, j]
            verdict: Verdict = "right" if closeness(exact, own) == "right" else "follows"
            if verdict == "follows" and not any(closeness(way[i, j], own) == "right" for way in ways):
                if others is None:
                    others = list(self._other_ways(operation))
                agreeing = [way[i, j] for way in others if closeness(way[i, j], own) == "right"]
                if agreeing:
                    follow = agreeing[0]
                else:
                    near = [x for x in (exact, *(way[i, j] for way in ways)) if closeness(x, own) == "rounded"]
                    verdict, follow = ("rounded", near[0]) if near else ("wrong", follow)
            yield Judged(symbol, i, j, own, exact, follow, verdict)

    def _other_ways(self, operation: Operation) -> Iterator[Matrix[Any]]:
        """The operation on each sensible choice of operands: written, set out in the statement, mended, recomputed,
        exact."""
        used = self.sheet.used.get(operation.symbol, {})
        free = operation.inputs[:1] if operation.op == "softargmax" else tuple(dict.fromkeys(operation.inputs))
        choices: list[list[tuple[str, Matrix[Any]]]] = []
        for symbol in free:
            kinds = [self.values[symbol]]
            if symbol in used and used[symbol].shape == self.exact[symbol].shape:
                kinds.append(used[symbol])
            kinds += [self.mended[symbol], self.exact[symbol]]
            kinds += [self.computed[symbol]] if symbol in self.given else []
            choices.append([(symbol, kind) for kind in kinds])
        givens = [self.given]
        if operation.op == "softargmax":  # from the scores alone, too
            givens.append({s: m for s, m in self.given.items() if s not in operation.inputs[1:]})
        for choice, given in islice(product(product(*choices), givens), MOST_WAYS):
            try:
                yield from self._compute(operation, {**self.values, **dict(choice)}, given)
            except GlassError:
                continue


def mixed(plan: Plan, operation: Operation, values: Values, given: Values, weights: str) -> list[Matrix[Any]]:
    """A·V of written weights: from the numbers as they stand, and from all weights that round to them and sum to 1.

    h = Σ a_j v_j = c·Σ a_j + Σ a_j (v_j − c) for any c, where Σ a_j is 1 but for what one more digit may lose. Without
    that the interval would let sums pass that no weights give.
    """
    A, others = values[weights], [values[name] for name in operation.inputs if name != weights]
    plain = compute(plan, operation, ARITHMETIC, values, given)
    by_rows = operation.inputs[0] == weights
    rows, V = (A, others[0]) if by_rows else (A.T, others[0].T)
    totals = [_total(row) for row in rows]
    if any(total is None for total in totals):  # weights that do not sum to 1 leave nothing but the interval
        return [plain]
    as_written = compute(plan, operation, ARITHMETIC, {**values, weights: A.map(_middle)}, given)
    held = Matrix.of([_held(row, total, column) for column in V.T] for row, total in zip(rows, totals, strict=True))
    return [held if by_rows else held.T, as_written]


def _middle(x: Any) -> Any:
    return x.mid()


def _total(row: tuple[Any, ...]) -> Any:
    """1 ± what the weights' next digit may add; None if the written weights cannot sum to 1."""
    total = row[0]
    for x in row[1:]:
        total = total + x
    loose = arb(1, total.rad() / 10)
    return loose if total.overlaps(loose) else None


def _held(row: tuple[Any, ...], total: Any, column: tuple[Any, ...]) -> Any:
    best = None
    for c in column:
        h = c * total
        for a, v in zip(row, column, strict=True):
            h = h + a * (v - c)
        best = h if best is None or h.rad() < best.rad() else best
    return best
