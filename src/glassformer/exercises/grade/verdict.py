"""The verdict on each cell: right, follows, rounded or wrong, as docs/check.md defines them.

The exact value, and every value that follows, is computed to hundreds of bits; the written entry is compared with it
digit by digit (`cells.closeness`). A cell is
- **right** if it is the exact value rounded (or truncated) to the digits written;
- **follows** if it is the result of the step, rounded to the digits written, from the learner's own earlier numbers:
    each operand either as the written decimals or as the unrounded value behind them;
- **rounded** if it is one unit of the last of at least two decimals away from one of these;
- **wrong** otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import Any, Literal, TypeAlias

from flint import arb, fmpq

from glassformer.errors import GlassError
from glassformer.exercises.arithmetic import IntervalArithmetic
from glassformer.exercises.grade.cells import AS_GOOD_AS_MASKED, BITS, Entries, Entry, closeness, values_of
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import Operation, Plan, compute, evaluate_plan

ARITHMETIC = IntervalArithmetic(BITS)  # 4 digits after the point of e^150 need 230 bits
MOST_WAYS = 40
WIDEST = 3  # units in the last digit: radius of an uncertain result that a number may follow from
Verdict: TypeAlias = Literal["right", "follows", "rounded", "wrong", "missing"]
VERDICTS: tuple[Verdict, ...] = ("right", "follows", "rounded", "wrong", "missing")
Values: TypeAlias = Mapping[str, Matrix[Any]]
Place: TypeAlias = tuple[str, int, int]
SetOut: TypeAlias = Mapping[Place, Sequence[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell (row and column from 0), its expected value, and the value expected from the learner's earlier values."""

    symbol: str
    row: int
    column: int
    entry: Entry | None
    exact: Any
    follow: Any
    verdict: Verdict
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All written cells of computed symbols; `exact` values, and `computed`: each from the learner's earlier values."""

    cells: tuple[Compared, ...]
    exact: Values
    computed: Values

    def of(self, symbol: str) -> tuple[Compared, ...]:
        return tuple(cell for cell in self.cells if cell.symbol == symbol)


def exact_values(plan: Plan) -> dict[str, Matrix[Any]]:
    return evaluate_plan(plan, ARITHMETIC)


class FollowThrough:
    """Compares every written cell with the exact value and with the value that follows from earlier cells.

    `entries` are the learner's cells by symbol; `used` the operands written out in a step's statement; `set_out` the
    expressions before a result, each as its value with all decimals exact and as an interval covering their rounding;
    `behind` the unrounded values of wrong cells whose mistake is known.

    Every symbol has six values: `values`, the written decimals taken as exact; `corrected`, the same with wrong cells
    replaced by their expected values (they may only be miscopied); `unrounded`, the values that the written ones are
    roundings of, including the learner's mistakes; `computed`, the result of the step from the earlier
    unrounded values, whatever is written for the step itself; `results`, the result of the step from the earlier
    written decimals, not rounded; and `rounded`, the written decimals and, for steps that
    are not written, their results rounded to the digits that the learner uses. Nobody knows what a wrong number without
    a known mistake was rounded from, so symbols that depend on one also have `uncertain` values: intervals with every
    value that it may have been.
    """

    def __init__(
        self,
        plan: Plan,
        exact: Values,
        entries: Mapping[str, Entries],
        used: Mapping[str, Values] | None = None,
        set_out: SetOut | None = None,
        behind: Mapping[Place, Any] | None = None,
    ) -> None:
        self.plan, self.exact, self.used = plan, exact, used or {}
        self.set_out, self.behind = set_out or {}, behind or {}
        known = {symbol: entries[symbol] for symbol in (*plan.given, *plan.symbols) if symbol in entries}
        self.entries = {symbol: cells for symbol, cells in known.items() if self._inside(symbol, cells)}
        self.values: dict[str, Matrix[Any]] = {}
        self.corrected: dict[str, Matrix[Any]] = {}
        self.unrounded: dict[str, Matrix[Any]] = {}
        self.computed: dict[str, Matrix[Any]] = {}
        self.rounded: dict[str, Matrix[Any]] = {}
        self.results: dict[str, Matrix[Any]] = {}
        self.uncertain: dict[str, Matrix[Any]] = {}
        written = {symbol: values_of(cells, exact[symbol].shape) for symbol, cells in self.entries.items()}
        self.given = {symbol: self._masked(symbol, values) for symbol, values in written.items()}
        self.truncates = self._truncates()
        digits = Counter(entry.places for cells in self.entries.values() for entry in cells.values() if entry.places)
        self.digits = digits.most_common(1)[0][0] if digits else None

    def _inside(self, symbol: str, cells: Entries) -> bool:
        rows, columns = self.exact[symbol].shape
        return all(i < rows and j < columns for i, j in cells)

    def _masked(self, symbol: str, written: Matrix[Any]) -> Matrix[Any]:
        """Replace −10⁹ where −∞ belongs by −∞ for later steps; −∞ that is not a score cannot be computed with."""

        def cell(x: Any, exact: Any) -> Any:
            if x is MASKED:
                return x if symbol[0] == "S" else None
            if x is None or not x.is_finite():
                return None
            return MASKED if exact is MASKED and x < AS_GOOD_AS_MASKED else x

        return written.zip(self.exact[symbol], cell)

    def _truncates(self) -> bool:
        """Return whether the learner truncates digits: at least twice, and never rounds up."""
        cut = up = 0
        for symbol, cells in self.entries.items():
            for at, entry in cells.items():
                exact = self.exact[symbol][at]
                found = closeness(exact, entry)
                cut += found == "truncated"
                up += found == "right" and exact is not MASKED and bool(entry.places) and abs(entry.value) > abs(exact)
        return cut > 1 and up == 0

    def matches(self, value: Any, entry: Entry) -> bool:
        """Return whether `value` rounds to the entry, or truncates to it if the learner truncates."""
        found = closeness(value, entry)
        return found == "right" or (found == "truncated" and self.truncates)

    def run(self) -> Verdicts:
        cells: list[Compared] = []
        steps: dict[str, Matrix[Any]] = dict(self.exact)
        with ARITHMETIC.precision():
            for symbol in self.plan.given:
                self.computed[symbol] = self.exact[symbol]
                own = self._filled(symbol, self.exact[symbol])
                self.values[symbol] = self.unrounded[symbol] = self.corrected[symbol] = self.rounded[symbol] = own
            for operation in self.plan.operations:
                symbol = operation.symbol
                first = steps[symbol] = self.results[symbol] = self._step(operation, self.values, self.given)
                self.computed[symbol] = self._unrounded_step(operation)
                found = list(self._symbol(operation, first))
                self.values[symbol] = self._filled(symbol, first)
                self.corrected[symbol] = self._corrected(operation)
                self.rounded[symbol] = self._rounded_step(operation)
                self.unrounded[symbol] = self._without_rounding(symbol, found)
                self._blur(operation, self._uncertain_step(operation), found)
                cells.extend(found)
        return Verdicts(tuple(cells), self.exact, steps)

    def _step(self, operation: Operation, values: Values, given: Values) -> Matrix[Any]:
        """Apply the operation to these values; use its exact value where they have none, as the exponential of e^50."""
        try:
            return compute(self.plan, operation, ARITHMETIC, values, given)
        except (GlassError, ZeroDivisionError):
            return self.exact[operation.symbol]

    def _filled(self, symbol: str, computed: Matrix[Any]) -> Matrix[Any]:
        written = self.given.get(symbol)
        return computed if written is None else written.zip(computed, lambda x, here: here if x is None else x)

    def _unrounded_step(self, operation: Operation) -> Matrix[Any]:
        """Compute the step from earlier unrounded values; weights come from the scores unless E or Z has a mistake."""
        given = {} if operation.op == "softargmax" and not self._changed(operation.inputs[1:]) else self.given
        return self._step(operation, self.unrounded, given)

    def _changed(self, symbols: Sequence[str]) -> bool:
        return any(
            not x.overlaps(y)
            for symbol in symbols
            for x, y in zip(_flat(self.unrounded[symbol]), _flat(self.computed[symbol]), strict=True)
        )

    def _without_rounding(self, symbol: str, cells: Sequence[Compared]) -> Matrix[Any]:
        """Return the values behind the written cells: those that round to them, or the cells themselves if wrong."""
        rows = [list(row) for row in self.computed[symbol]]
        for cell in cells:
            i, j = cell.row, cell.column
            assert cell.entry is not None
            if not self.matches(rows[i][j], cell.entry):
                written = self.given[symbol][i, j]
                behind = {"right": cell.exact, "wrong": written}.get(cell.verdict, cell.follow)
                if cell.verdict in ("wrong", "rounded"):
                    behind = self.behind.get((symbol, i, j), behind)
                rows[i][j] = rows[i][j] if written is None else behind
        return Matrix.of(rows)

    def _uncertain_step(self, operation: Operation) -> Matrix[Any] | None:
        """Compute the step from uncertain values; None if all its operands are certain."""
        if not any(symbol in self.uncertain for symbol in operation.inputs):
            return None
        values = {**self.unrounded, **self.uncertain}
        weights = operation.op == "softargmax" and not self._changed(operation.inputs[1:])
        given = {} if weights else {**self.given, **{s: m for s, m in self.uncertain.items() if s in self.given}}
        return self._step(operation, values, given)

    def _blur(self, operation: Operation, made: Matrix[Any] | None, cells: Sequence[Compared]) -> None:
        """Set the uncertain values of a step: those that round to a wrong number, and what is computed from such."""
        symbol = operation.symbol
        rows = [list(row) for row in (self.unrounded[symbol] if made is None else made)]
        blurred = made is not None
        for cell in cells:
            at = (cell.row, cell.column)
            written, entry = self.given[symbol][at], cell.entry
            if entry is None or written is None or written is MASKED or entry.places is None:
                continue
            wrong = cell.verdict == "wrong" and (symbol, *at) not in self.behind
            around = written + arb(0, arb(fmpq(1, 2)) * arb(fmpq(10)) ** -entry.places)
            if wrong:
                rows[cell.row][cell.column], blurred = around, True
            elif made is not None:
                mine = made[at]
                both = mine is not MASKED and mine.is_finite() and bool(around.overlaps(mine))
                rows[cell.row][cell.column] = around.intersection(mine) if both else self.unrounded[symbol][at]
        if blurred:
            self.uncertain[symbol] = Matrix.of(rows)

    def _corrected(self, operation: Operation) -> Matrix[Any]:
        """Return the written decimals; those that do not follow from corrected ones are replaced to the same digits."""
        symbol = operation.symbol
        made = self._step(operation, self.corrected, self.given)
        rows = [list(row) for row in self._filled(symbol, made)]
        for (i, j), entry in self.entries.get(symbol, {}).items():
            if closeness(made[i, j], entry) == "wrong" and self.given[symbol][i, j] is not None:
                rows[i][j] = _rounded(made[i, j], entry.places)
        return Matrix.of(rows)

    def _rounded_step(self, operation: Operation) -> Matrix[Any]:
        """Return the written decimals; where nothing is written, the result rounded to the digits of the others."""
        if operation.symbol in self.given or self.digits is None:
            return self.values[operation.symbol]
        return self._step(operation, self.rounded, self.given).map(lambda x: _rounded(x, self.digits))

    def _symbol(self, operation: Operation, first: Matrix[Any]) -> Iterator[Compared]:
        symbol = operation.symbol
        ways: list[Matrix[Any]] | None = None
        uncertain = self._uncertain_step(operation) if symbol in self.entries else None
        for (i, j), entry in sorted(self.entries.get(symbol, {}).items()):
            exact, follow = self.exact[symbol][i, j], first[i, j]
            close = closeness(exact, entry)
            if close in ("right", "truncated"):
                cut = close == "truncated" and closeness(follow, entry) != "right"
                yield Compared(symbol, i, j, entry, exact, follow, "right", cut)
                continue
            if ways is None:
                ways = [first, *self._ways(operation)]
            values = [way[i, j] for way in ways]
            here = self.set_out.get((symbol, i, j), ())
            values += [x for x, interval in here if _is_rounding(interval, values, exact)]
            agreeing = next((x for x in values if self.matches(x, entry)), None)
            if agreeing is not None:
                yield Compared(symbol, i, j, entry, exact, agreeing, "follows")
                continue
            if uncertain is not None and _may_be(uncertain[i, j], entry):
                yield Compared(symbol, i, j, entry, exact, follow, "follows")
                continue
            near = next((x for x in (exact, *values) if closeness(x, entry) in ("rounded", "truncated")), None)
            verdict: Verdict = "wrong" if near is None else "rounded"
            yield Compared(symbol, i, j, entry, exact, follow if near is None else near, verdict)

    def _ways(self, operation: Operation) -> Iterator[Matrix[Any]]:
        """Apply the operation to each choice of operands: written, set out in the statement, unrounded, recomputed."""
        if operation.op == "copy" and operation.inputs[0] in self.used and operation.inputs[0] not in self.entries:
            yield from self._ways(self.plan[operation.inputs[0]])  # the only head's O is H
        used = self.used.get(operation.symbol, {})
        free = operation.inputs[:1] if operation.op == "softargmax" else tuple(dict.fromkeys(operation.inputs))
        choices: list[list[tuple[str, Matrix[Any]]]] = []
        for symbol in free:
            kinds = [self.values[symbol], self.unrounded[symbol], self.corrected[symbol], self.computed[symbol]]
            kinds += [self.rounded[symbol], self.results.get(symbol, self.values[symbol])]
            if symbol in used and used[symbol].shape == self.exact[symbol].shape:
                kinds.insert(1, used[symbol])
            distinct = [kind for k, kind in enumerate(kinds) if not any(kind is other for other in kinds[:k])]
            choices.append([(symbol, kind) for kind in distinct])
        for choice in islice(product(*choices), MOST_WAYS):
            values = {**self.values, **dict(choice)}
            try:
                if operation.op == "softargmax":
                    yield from self._weights(operation, values)
                else:
                    yield compute(self.plan, operation, ARITHMETIC, values, self.given)
            except (GlassError, ZeroDivisionError):
                continue

    def _weights(self, operation: Operation, values: dict[str, Matrix[Any]]) -> Iterator[Matrix[Any]]:
        """Compute weights from the scores alone, from the exponentials, from their sum, and from both as written."""
        E, Z = operation.inputs[1:]
        none = {symbol: value for symbol, value in self.given.items() if symbol not in (E, Z)}
        yield compute(self.plan, operation, ARITHMETIC, values, none)
        written = [symbol for symbol in (E, Z) if symbol in self.given]
        for chosen in ([E], [Z], [E, Z]):
            if not set(chosen) <= set(written):
                continue
            given = {**none, **{symbol: self.given[symbol] for symbol in chosen}}
            here = dict(values)
            for symbol in (E, Z):
                made = compute(self.plan, self.plan[symbol], ARITHMETIC, here, given)
                here[symbol] = self._filled(symbol, made) if symbol in chosen else made
            yield compute(self.plan, operation, ARITHMETIC, here, given)


def _flat(matrix: Matrix[Any]) -> list[Any]:
    return [x for _, _, x in matrix.cells() if x is not MASKED]


def _may_be(value: Any, entry: Entry) -> bool:
    """Return whether one of the values in a narrow interval rounds to the entry."""
    if entry.places is None or value is MASKED or not value.is_finite():
        return False
    return value.rad() < WIDEST * arb(fmpq(10)) ** -entry.places and closeness(value, entry) == "right"


def _rounded(value: Any, places: int | None) -> Any:
    if places is None or value is MASKED or not value.is_finite():
        return value
    middle = value.mid().fmpq()
    unit = Fraction(10) ** -places
    nearest = round(Fraction(int(middle.p), int(middle.q)) / unit) * unit
    return arb(fmpq(nearest.numerator, nearest.denominator))


def _is_rounding(interval: Any, values: Sequence[Any], exact: Any) -> bool:
    """Return whether an expression is a right or following value up to the rounding of its decimals."""
    return any(x is not MASKED and x.is_finite() and bool(interval.overlaps(x)) for x in (exact, *values))
