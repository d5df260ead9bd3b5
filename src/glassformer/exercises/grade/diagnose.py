"""Diagnosis: the mistakes behind the wrong cells.

Every mistake of the catalogue is a hypothesis, tested on the learner's numbers: it explains a step if all written cells
of the step agree with the plan so edited, computed from the learner's own earlier values. The simplest hypothesis that
explains the most cells wins. It is identified by the first written steps that it affects; those after them follow
anyway. What remains are mistakes in a few cells of one step: rows swapped, a sign dropped, an error in one sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from glassformer.errors import GlassError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.cells import Entries, Entry, Shape, Table, agrees, format_value
from glassformer.exercises.grade.mistakes import OF_ALL_TOKENS, Hypothesis, changed, hypotheses
from glassformer.exercises.grade.verdict import ARITHMETIC, Compared, FollowThrough, Place
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import Operation, Plan, compute


@dataclass(frozen=True, slots=True)
class Mistake:
    """A named mistake: where it was made, the evidence, and the cells it explains (counted from 0).

    `cause` is the evidence without right values, if `why` has any. `values` are the unrounded values that the mistake
    predicts for these cells; only the search needs them. `steps` are those that were computed wrongly, empty if that is
    not known.
    """

    name: str
    where: str
    why: str
    cells: frozenset[Place]
    values: Mapping[Place, Any] = field(default_factory=dict, compare=False, repr=False)
    cause: str | None = None
    steps: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        cells = [[symbol, i + 1, j + 1] for symbol, i, j in sorted(self.cells)]
        return {"name": self.name, "where": self.where, "why": self.why, "cells": cells}


def cell_name(symbol: str, row: int, column: int) -> str:
    return f"{symbol}[{row + 1},{column + 1}]"


class WrongStep:
    """A step of the plan with the learner's cells, the wrong ones among them, and their expected values.

    `bases`: the step from the learner's own values, and from the exact ones; `used`: its values as used by the learner
    in later steps; `operation`: what the learner computed, if not the plan's own operation of the symbol; `copies`:
    whether the matrices that a copy or concatenation takes its numbers from are written.
    """

    def __init__(
        self, plan: Plan, symbol: str, entries: Entries, wrong: Sequence[Compared], values: Mapping[str, Matrix[Any]],
        bases: tuple[Matrix[Any], Matrix[Any]], used: Sequence[Matrix[Any]] = (), operation: Operation | None = None,
        copies: bool = True,
    ) -> None:  # fmt: skip
        self.plan, self.symbol, self.entries, self.wrong, self.values = plan, symbol, entries, wrong, values
        self.bases, self.used, self.copies = bases, used, copies
        self.operation = plan[symbol] if operation is None else operation
        self.computed = bases[0]
        self.places = frozenset((symbol, cell.row, cell.column) for cell in wrong)

    def agrees(self, value: Matrix[Any]) -> bool:
        """Return whether everything written for the step agrees with `value`."""
        if value.shape != self.computed.shape:
            return False
        return all(agrees(value[at], entry) for at, entry in self.entries.items())

    def explains(
        self, name: str, where: str, why: str, made: Matrix[Any], cause: str | None = None, step: str | None = None
    ) -> Mistake:
        values = {(s, i, j): made[i, j] for s, i, j in self.places}
        return Mistake(name, where, why, self.places, values, cause, frozenset({step or self.symbol}))

    # -- rows --------------------------------------------------------------------------------------------------------

    def swapped(self) -> Iterator[Mistake]:
        """Find two rows, or two columns, that are swapped. A single number cannot show that."""
        if len(self.wrong) < 2:
            return
        for base, (word, transposed) in product(self.bases, (("row", False), ("column", True))):
            value = base.T if transposed else base
            lines = sorted({cell.column if transposed else cell.row for cell in self.wrong})
            if len(lines) > 2:
                continue
            for a, b in combinations(range(len(value.rows)), 2):
                if not set(lines) <= {a, b}:
                    continue
                order = list(value.rows)
                order[a], order[b] = order[b], order[a]
                made = Matrix(tuple(order))
                made = made.T if transposed else made
                if self.agrees(made):
                    where = f"{word}s {a + 1} and {b + 1} of {self.symbol}"
                    why = f"{word.capitalize()}s {a + 1} and {b + 1} of {self.symbol} are swapped"
                    yield self.explains(f"two {word}s swapped", where, why, made)

    # -- signs -------------------------------------------------------------------------------------------------------

    def signs(self) -> Iterator[Mistake]:
        """Find lost signs: all wrong cells have the right magnitude but the wrong sign, or an operand lost its sign."""
        here = [(cell, self.computed[cell.row, cell.column]) for cell in self.wrong]
        if all(cell.entry is not None and _negated(value, cell.entry) for cell, value in here):
            names = ", ".join(cell_name(self.symbol, cell.row, cell.column) for cell, _ in here)
            cell, value = here[0]
            cause = "the number is right, but its sign is wrong"
            why = f"{names} should be {format_value(value, cell.entry)}: {cause}"
            yield self.explains("a sign dropped", names, why, self.computed.map(_negative), cause)
            return
        operation = self.operation
        if operation.op not in ("matmul", "linear"):
            return
        for name in dict.fromkeys(operation.inputs):
            for i, j, x in self.values[name].cells():
                if x is not MASKED and x < 0:
                    yield from self._with_operand(operation, name, i, j, -x)

    def _with_operand(self, operation: Operation, name: str, i: int, j: int, x: Any) -> Iterator[Mistake]:
        rows = [list(row) for row in self.values[name]]
        rows[i][j] = x
        try:
            made = compute(self.plan, operation, ARITHMETIC, {**self.values, name: Matrix.of(rows)}, {})
        except GlassError:
            return
        if self.agrees(made):
            where = cell_name(name, i, j)
            wrong, right = format_value(x), format_value(-x)
            why = f"{self.symbol} has the values you wrote if {where} is {wrong} instead of {right}"
            yield self.explains("a sign dropped", f"{where} in {self.symbol}", why, made, step=name)

    # -- one cell ----------------------------------------------------------------------------------------------------

    def single(self) -> Iterator[Mistake]:
        """Diagnose isolated entries one by one, as far as a sum of products allows."""
        operation = self.operation
        for cell in self.wrong:
            if cell.entry is None:
                continue
            value = self.computed[cell.row, cell.column]
            where = cell_name(self.symbol, cell.row, cell.column)
            place = frozenset({(self.symbol, cell.row, cell.column)})
            if operation.op in ("copy", "concat") and self.copies:
                why = f"{where} is miscopied: {format_value(value, cell.entry)} became {cell.entry.text}"
                cause = f"{cell.entry.text} is written"
                yield Mistake("a number copied wrongly", where, why, place, {}, cause, frozenset({self.symbol}))
                continue
            name, why = self._reason(operation, cell, value)
            steps = frozenset({self.symbol} if why else ())
            cause = why or f"{cell.entry.text} is written"
            right = format_value(value, cell.entry)
            sentence = f"{where} should be {right}, given your earlier numbers, but {cell.entry.text} is written"
            used = [matrix[cell.row, cell.column] for matrix in self.used]
            if value is not MASKED and any(x is not MASKED and value.overlaps(x) for x in used):
                why = f"you continue with {right}, so this may only be a miscopied digit"
                cause = "you continue with another number, so this may only be a miscopied digit"
            yield Mistake(name, where, sentence + (f": {why}" if why else ""), place, {}, cause, steps)

    def _reason(self, operation: Operation, cell: Compared, value: Any) -> tuple[str, str]:
        """Return the name of a mistake in one cell and what produces the number; without the latter, no cause."""
        unexplained = "one wrong number", ""
        if cell.entry is None or value is MASKED or cell.entry.value is MASKED:
            return unexplained
        if _negated(value, cell.entry):
            return "a sign dropped", "the number is right, but its sign is wrong"
        found = list(self._terms(operation, cell, value)) if operation.op in ("matmul", "linear") else []
        return found[0] if len({why for _, why in found}) == 1 else unexplained

    def _terms(self, operation: Operation, cell: Compared, value: Any) -> Iterator[tuple[str, str]]:
        """Test one product of the sum: omitted, counted twice, with its sign lost, or added instead of multiplied."""
        generic = "one arithmetic mistake in one cell"
        first, second = (
            self.values[n.removesuffix("^T")].T if n.endswith("^T") else self.values[n] for n in operation.operands[:2]
        )
        for x, y in zip(first.rows[cell.row], second.T.rows[cell.column], strict=True):
            if x is MASKED or y is MASKED or (x * y).contains(0) or cell.entry is None:
                continue
            term = f"{format_value(x)}·{format_value(y)}"
            if agrees(value - x * y, cell.entry):
                yield generic, f"the product {term} is left out"
            if agrees(value + x * y, cell.entry):
                yield generic, f"the product {term} is counted twice"
            if agrees(value - 2 * x * y, cell.entry):
                yield "a sign dropped", f"the product {term} has the wrong sign"
            if agrees(value - x * y + x + y, cell.entry):
                yield generic, f"{format_value(x)} and {format_value(y)} are added, not multiplied"


def _negative(x: Any) -> Any:
    return x if x is MASKED else -x


def _negated(value: Any, entry: Entry) -> bool:
    return value is not MASKED and not value.contains(0) and agrees(-value, entry)


MOST_MISTAKES = 8
MOST_PAIRS = 400
MOST_LINES = 6  # tokens whose mistakes are searched for one by one
FEW = 3  # maximum number of wrong cells in a step that are treated as separate mistakes


def diagnose(
    exercise: Exercise,
    follow: FollowThrough,
    cells: Sequence[Compared],
    misshaped: Mapping[str, Table] | None = None,
) -> list[Mistake]:
    """Return the mistakes behind the wrong cells, in plan order; empty if nothing is wrong.

    `misshaped` holds the answers of an unexpected size.
    """
    return Search(exercise, follow, cells, misshaped or {}).run()


class Search:
    def __init__(
        self, exercise: Exercise, follow: FollowThrough, cells: Sequence[Compared], misshaped: Mapping[str, Table]
    ) -> None:
        self.exercise, self.follow, self.plan = exercise, follow, follow.plan
        self.cells, self.misshaped = cells, misshaped
        self.entries = follow.entries
        self.left: set[Place] = {(c.symbol, c.row, c.column) for c in cells if c.verdict == "wrong"}
        self.off = {(c.symbol, c.row, c.column) for c in cells if c.verdict == "rounded"}
        self.fine = {(c.symbol, c.row, c.column) for c in cells if c.verdict not in ("wrong", "missing")}

    def run(self) -> list[Mistake]:
        mistakes: list[Mistake] = []
        if not self.left:
            return mistakes
        with ARITHMETIC.precision():
            tried = list(hypotheses(self.plan, self.exercise))
            while self.left and len(mistakes) < MOST_MISTAKES:
                found = self.best(tried) or self.in_lines(tried) or (self.pair(tried) if self.many() else None)
                if found is None:
                    break
                mistakes.append(found)
                self.left -= found.cells
            mistakes += self.unnormalised()
            self.left -= {place for mistake in mistakes for place in mistake.cells}
            mistakes += self.single()
        order = {symbol: k for k, symbol in enumerate(self.plan.symbols)}
        return sorted(mistakes, key=lambda mistake: min((order[s], i, j) for s, i, j in mistake.cells))

    # -- hypotheses --------------------------------------------------------------------------------------------------

    def best(self, tried: Sequence[Hypothesis]) -> Mistake | None:
        """Return the hypothesis that explains the most; ties go to the first: plan mistakes before rows and signs."""
        found = [mistake for h in tried for mistake in (self.mistake(h.plan, [h]),) if mistake is not None]
        found += self.local()
        return max(found, key=lambda mistake: len(mistake.cells), default=None)

    def pair(self, tried: Sequence[Hypothesis]) -> Mistake | None:
        """Find two simultaneous mistakes, where the steps between them are not written."""
        pairs = [(a, b) for a, b in combinations(tried, 2) if a.kind.name != b.kind.name or a.heads != b.heads]
        for a, b in pairs[:MOST_PAIRS]:  # in different heads, or of different kinds
            together = b.kind.edit(a.plan, self.exercise, b.heads)
            mistake = self.mistake(together, [a, b]) if together is not None else None
            if mistake is not None:
                return mistake
        return None

    def in_lines(self, tried: Sequence[Hypothesis]) -> Mistake | None:
        """Find a mistake made for some tokens only, such as one row of scores that is not scaled.

        It must explain at least two numbers, unless a single one suffices to recognise it (`Kind.telling`).
        """
        axis = 0 if self.plan.axis == "rows" else 1
        places = ((i, j) for _, i, j in self.left)
        lines = sorted({at[axis] for at in places})[:MOST_LINES]
        possible = [h for h in tried if h.kind.name not in OF_ALL_TOKENS]
        found = [m for h in possible for m in (self.mistake(h.plan, [h], lines),) if m is not None]
        return max(found, key=lambda mistake: len(mistake.cells), default=None)

    def mistake(self, plan: Plan, made: Sequence[Hypothesis], lines: Sequence[int] = ()) -> Mistake | None:
        """Return the mistake that a hypothesis explains, in the whole step or, if given, in some of these lines."""
        touched = changed(self.plan, plan)
        if not any(symbol in touched or touched & self.plan.before(symbol) for symbol, _, _ in self.left):
            return None
        by_line = {line: self.explained(plan, touched, line) for line in lines or (None,)}
        values = {place: value for found in by_line.values() for place, value in found.items()}
        found = {place: value for place, value in values.items() if place in self.left}
        if not found or (lines and len(found) < 2 and not made[0].kind.telling):
            return None
        tokens = [str(line + 1) for line, explained in by_line.items() if explained and line is not None]
        only = f"; this is so only for token{'s' if len(tokens) > 1 else ''} {' and '.join(tokens)}" if tokens else ""
        symbols = sorted({s for s, _, _ in found}, key=self.plan.symbols.index)
        where = " and ".join([", ".join(symbols[:-1]), symbols[-1]] if len(symbols) > 1 else symbols)
        what = " and ".join(each.kind.description for each in made)
        name = (
            made[0].kind.name
            if len({each.kind.name for each in made}) == 1
            else " and ".join(h.kind.name for h in made)
        )
        why = f"{what}{only}. {self.example(symbols[0], found)}"
        return Mistake(name, where, why, frozenset(found), values, f"{what}{only}", touched)

    def example(self, symbol: str, found: dict[Place, Any]) -> str:
        """Return an example: a learner's number with the mistake and without it."""
        (_, i, j), value = min((item for item in found.items() if item[0][0] == symbol), key=lambda item: item[0])
        if value is True:  # a different size
            return f"So {symbol} has another size"
        cell = next((c for c in self.cells if (c.symbol, c.row, c.column) == (symbol, i, j)), None)
        entry = cell.entry if cell is not None else None
        right = f", and should be {format_value(self.follow.exact[symbol][i, j], entry)}" if cell is not None else ""
        return f"So {symbol}[{i + 1},{j + 1}] becomes {format_value(value, entry)}, as you wrote{right}"

    def explained(self, plan: Plan, touched: frozenset[str], line: int | None = None) -> dict[Place, Any]:
        """Return the wrong cells that the edited plan reproduces, with values; empty if it contradicts a right cell.

        With `line`, only the cells of that token count.
        """
        try:
            return self.trial(plan, touched, line)
        except (GlassError, ZeroDivisionError):
            return {}

    def trial(self, plan: Plan, touched: frozenset[str], line: int | None) -> dict[Place, Any]:
        """Evaluate the edited plan with the written decimals, and with the unrounded values behind them."""
        axis = 1 if self.plan.axis == "rows" else 2
        found: dict[Place, Any] = {}
        written, unrounded = dict(self.follow.values), dict(self.follow.unrounded)
        moving = set(touched)  # steps whose value differs from the learner's own
        given = {symbol: value for symbol, value in self.follow.given.items() if symbol not in moving}
        whole = False
        for operation in plan.operations:
            symbol = operation.symbol
            if symbol not in moving and not moving & set(operation.inputs):
                continue
            tight = self.ways(plan, operation, unrounded, given)
            ways = [*tight, *self.ways(plan, operation, written, given)]
            verdicts = self.compared(symbol, ways)
            if line is not None and verdicts is not None:
                verdicts = {place: value for place, value in verdicts.items() if place[axis] == line} or None
            unrounded[symbol] = _first_finite(tight)
            if verdicts is None:
                if line is not None and symbol[0] in "KV":
                    return {}  # every token depends on this one's key and value
                written[symbol] = _first_finite(ways[len(tight) :])
                moving.add(symbol)
                continue
            wrong = {place for place in self.left if place[0] == symbol and line in (None, place[axis])}
            good = {place for place in wrong if verdicts.get(place) is not None}
            if good != wrong or any(value is None and place in self.fine for place, value in verdicts.items()):
                return {}
            found |= {place: value for place, value in verdicts.items() if place in good | self.off}
            whole = whole or bool(wrong)
            moving.discard(symbol)
            self.hold(symbol, ways[0].shape, written, given)
        return found if whole else {}

    def ways(
        self, plan: Plan, operation: Operation, values: Mapping[str, Matrix[Any]], given: Mapping[str, Matrix[Any]]
    ) -> list[Matrix[Any]]:
        """Compute the weights from the exponentials as written, and directly from the scores."""
        givens = [given]
        if operation.op == "softargmax":
            givens.append({symbol: value for symbol, value in given.items() if symbol not in operation.inputs[1:]})
        return [compute(plan, operation, ARITHMETIC, values, chosen) for chosen in givens]

    def hold(self, symbol: str, shape: Shape, values: dict[str, Matrix[Any]], given: dict[str, Matrix[Any]]) -> None:
        """Use the learner's own values again from here on; sums along the other axis are transposed."""
        written = self.follow.given.get(symbol)
        if written is None:
            return
        transposed = written.shape != shape
        values[symbol] = self.follow.values[symbol].T if transposed else self.follow.values[symbol]
        given[symbol] = written.T if transposed else written

    def compared(self, symbol: str, ways: Sequence[Matrix[Any]]) -> dict[Place, Any] | None:
        """Map each written cell of the symbol to the value it agrees with, or None; None if nothing is written."""
        shape = ways[0].shape
        if symbol in self.entries:
            expected = self.follow.exact[symbol].shape
            transposed = shape != expected and shape == expected[::-1] and 1 in shape
            if shape != expected and not transposed:
                return {(symbol, i, j): None for i, j in self.entries[symbol]}
            return {
                (symbol, i, j): _agreeing([way[(j, i) if transposed else (i, j)] for way in ways], entry)
                for (i, j), entry in self.entries[symbol].items()
            }
        other = self.misshaped.get(symbol)
        if other is None:
            return None
        same = other.shape == shape and all(agrees(ways[0][i, j], entry) for i, j, entry in other.cells())
        at = [place for place in self.left if place[0] == symbol]
        inside = [place for place in at if place[1] < shape[0] and place[2] < shape[1]]
        return {place: ways[0][place[1], place[2]] if place in inside else True for place in at} if same else {}

    # -- cells -------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[WrongStep]:
        for symbol in dict.fromkeys(s for s, _, _ in sorted(self.left, key=lambda p: self.plan.symbols.index(p[0]))):
            wrong = [c for c in self.cells if (c.symbol, c.row, c.column) in self.left and c.symbol == symbol]
            if symbol in self.entries:
                try:
                    ways = self.ways(self.plan, self.plan[symbol], self.follow.values, self.follow.given)
                except (GlassError, ZeroDivisionError):  # numbers for which the step is undefined
                    ways = [self.follow.exact[symbol]]
                bases = (_first_finite(ways), self.follow.exact[symbol])
                used = [matrices[symbol] for matrices in self.follow.used.values() if symbol in matrices]
                made = self._computed(symbol)
                copies = all(name in self.entries for name in made.inputs)
                yield WrongStep(
                    self.plan, symbol, self.entries[symbol], wrong, self.follow.values, bases, used, made, copies
                )

    def _computed(self, symbol: str) -> Operation:
        """Return the operation behind a step: O = H is not a copy if H is not written."""
        operation = self.plan[symbol]
        while operation.op == "copy" and operation.inputs[0] in self.plan and operation.inputs[0] not in self.entries:
            operation = self.plan[operation.inputs[0]]
        return operation

    def local(self) -> list[Mistake]:
        return [mistake for step in self.steps() for mistake in (*step.swapped(), *step.signs())]

    def unnormalised(self) -> Iterator[Mistake]:
        """Find lines of weights with several wrong cells that do not sum to 1."""
        for symbol in [s for s in self.entries if s in self.plan and self.plan[s].op == "softargmax"]:
            found: set[Place] = set()
            sums = []
            shape = self.follow.exact[symbol].shape
            for line, total, tolerance in weight_sums(self.plan, self.entries[symbol], shape):
                wrong = {(symbol, *at) for at in line} & self.left
                if len(wrong) > 1 and abs(total - 1) > tolerance:
                    found |= wrong
                    token = next(iter(line))[0 if self.plan.axis == "rows" else 1] + 1
                    sums.append(f"those of token {token} sum to {format_value(total, next(iter(line.values())))}")
            if found:
                more = f"; and {len(sums) - 3} more" if len(sums) > 3 else ""
                why = f"The weights of a token sum to 1; {'; '.join(sums[:3])}{more}"
                yield Mistake("weights that do not sum to 1", symbol, why, frozenset(found), steps=frozenset({symbol}))

    def many(self) -> bool:
        """Return whether a step has more wrong cells than separate mistakes would explain."""
        return any(not _few(step) for step in self.steps())

    def single(self) -> Iterable[Mistake]:
        """Diagnose the rest: a few wrong cells in a step are separate mistakes; more than that remain unnamed."""
        return [mistake for step in self.steps() if _few(step) for mistake in step.single()]


def weight_sums(plan: Plan, entries: Entries, shape: tuple[int, int]) -> Iterator[tuple[Entries, Any, Any]]:
    """Yield each complete line of weights with its sum and the rounding tolerance around 1: one unit per weight."""
    axis = 0 if plan.axis == "rows" else 1
    lines: dict[int, Entries] = {}
    for at, entry in entries.items():
        lines.setdefault(at[axis], {})[at] = entry
    for line in lines.values():
        values = [entry.value for entry in line.values() if entry.value is not MASKED]
        if len(line) == shape[1 - axis] == len(values) and len(values) > 1 and all(x.is_finite() for x in values):
            units = [Fraction(10) ** -(entry.places or 0) for entry in line.values() if entry.places is not None]
            slack = max(units, default=Fraction(1, 10**6)) * len(values)
            yield line, sum(values[1:], values[0]), float(slack)


def _agreeing(values: Sequence[Any], entry: Entry) -> Any:
    return next((value for value in values if agrees(value, entry)), None)


def _first_finite(ways: Sequence[Matrix[Any]]) -> Matrix[Any]:
    """Return, cell by cell, the first finite value; exponentials rounded to 0 give none."""
    best = ways[0]
    for way in ways[1:]:
        best = best.zip(way, lambda a, b: b if a is not MASKED and not a.is_finite() else a)
    return best


def _few(step: WrongStep) -> bool:
    return len(step.wrong) <= min(FEW, max(1, len(step.entries) // 3))
