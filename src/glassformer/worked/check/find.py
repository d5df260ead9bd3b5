"""Finding the slip: every hypothesis is tried on the learner's numbers, and the simplest that explains them wins.

A hypothesis explains a step if all its written cells agree with the plan so edited, computed from the learner's own
values before it. It is told by the first written steps that it touches; those after them follow anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from glassformer.errors import GlassError
from glassformer.worked.check.fit import Cells, Shape
from glassformer.worked.check.local import Place, Slip, Step
from glassformer.worked.check.own import Own, closeness, shown
from glassformer.worked.check.sheet import Sheet
from glassformer.worked.check.slips import Hypothesis, changed, hypotheses
from glassformer.worked.check.verdict import ARITHMETIC, Judge, Judged
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import MASKED
from glassformer.worked.plan import Operation, Plan, compute
from glassformer.worked.problem import Exercise

MOST_SLIPS = 8
MOST_PAIRS = 400
FEW = 3  # wrong cells of a step that are taken as that many single slips


def find(exercise: Exercise, judge: Judge, cells: Sequence[Judged]) -> list[Slip]:
    """The slips behind the wrong cells, in the order of the plan; none if nothing is wrong."""
    return Finder(exercise, judge, cells).run()


class Finder:
    def __init__(self, exercise: Exercise, judge: Judge, cells: Sequence[Judged]) -> None:
        self.exercise, self.judge, self.plan = exercise, judge, judge.plan
        self.sheet: Sheet = judge.sheet
        self.cells = cells
        self.own: Mapping[str, Cells] = judge.own
        self.left: set[Place] = {(c.symbol, c.row, c.column) for c in cells if c.verdict == "wrong"}
        self.fine = {(c.symbol, c.row, c.column) for c in cells if c.verdict not in ("wrong", "missing")}

    def run(self) -> list[Slip]:
        slips: list[Slip] = []
        if not self.left:
            return slips
        with ARITHMETIC.precision():
            tried = list(hypotheses(self.plan, self.exercise))
            while self.left and len(slips) < MOST_SLIPS:
                found = self.best(tried) or (self.pair(tried) if self.many() else None)
                if found is None:
                    break
                slips.append(found)
                self.left -= found.cells
            slips += self.single()
        order = {symbol: k for k, symbol in enumerate(self.plan.symbols)}
        return sorted(slips, key=lambda slip: min((order[s], i, j) for s, i, j in slip.cells))

    # -- hypotheses --------------------------------------------------------------------------------------------------

    def best(self, tried: Sequence[Hypothesis]) -> Slip | None:
        """The one that explains most; of equals the first: plan slips before rows and signs."""
        found = [slip for h in tried for slip in (self.slip(h.plan, [h]),) if slip is not None]
        found += self.local()
        return max(found, key=lambda slip: len(slip.cells), default=None)

    def pair(self, tried: Sequence[Hypothesis]) -> Slip | None:
        """Two slips at once, where the steps between them are not written."""
        pairs = [(a, b) for a, b in combinations(tried, 2) if a.kind.name != b.kind.name or a.heads != b.heads]
        for a, b in pairs[:MOST_PAIRS]:  # in other heads, or of another kind
            together = b.kind.edit(a.plan, self.exercise, b.heads)
            slip = self.slip(together, [a, b]) if together is not None else None
            if slip is not None:
                return slip
        return None

    def slip(self, plan: Plan, made: Sequence[Hypothesis]) -> Slip | None:
        touched = changed(self.plan, plan)
        if not any(symbol in touched or touched & self.plan.before(symbol) for symbol, _, _ in self.left):
            return None
        found = self.explained(plan, touched)
        if not found:
            return None
        symbols = sorted({s for s, _, _ in found}, key=self.plan.symbols.index)
        where = " and ".join([", ".join(symbols[:-1]), symbols[-1]] if len(symbols) > 1 else symbols)
        says = " and ".join(each.kind.says for each in made)
        name = (
            made[0].kind.name
            if len({each.kind.name for each in made}) == 1
            else " and ".join(h.kind.name for h in made)
        )
        return Slip(name, where, f"{says}. {self.example(symbols[0], found)}", frozenset(found))

    def example(self, symbol: str, found: dict[Place, Any]) -> str:
        """What a learner's number would be with the slip, and without it."""
        (_, i, j), value = min((item for item in found.items() if item[0][0] == symbol), key=lambda item: item[0])
        if value is True:  # of another size
            return f"So {symbol} has another size"
        cell = next((c for c in self.cells if (c.symbol, c.row, c.column) == (symbol, i, j)), None)
        own = cell.own if cell is not None else None
        right = f", and should be {shown(self.judge.exact[symbol][i, j], own)}" if cell is not None else ""
        return f"So {symbol}[{i + 1},{j + 1}] becomes {shown(value, own)}, as you wrote{right}"

    def explained(self, plan: Plan, touched: frozenset[str]) -> dict[Place, Any]:
        """The wrong cells that the edited plan gives, with their values; none if it contradicts a cell that is fine."""
        for values in (self.judge.values, self.judge.mended):
            try:
                found = self.trial(plan, touched, dict(values))
            except (GlassError, ZeroDivisionError):
                return {}
            if found:
                return found
        return {}

    def trial(self, plan: Plan, touched: frozenset[str], values: dict[str, Matrix[Any]]) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        moving = set(touched)  # steps whose value is another than the learner's own
        given = {symbol: value for symbol, value in self.judge.given.items() if symbol not in moving}
        whole = False
        for operation in plan.operations:
            symbol = operation.symbol
            if symbol not in moving and not moving & set(operation.inputs):
                continue
            ways = self.ways(plan, operation, values, given)
            verdicts = self.compared(symbol, ways)
            if verdicts is None:
                values[symbol] = _tightest(ways)
                moving.add(symbol)
                continue
            wrong = {place for place in self.left if place[0] == symbol}
            good = {place for place in wrong if verdicts.get(place) is not None}
            if good != wrong or any(value is None and place in self.fine for place, value in verdicts.items()):
                return {}
            found |= {place: verdicts[place] for place in good}
            whole = whole or bool(wrong)
            moving.discard(symbol)
            self.hold(symbol, ways[0].shape, values, given)
        return found if whole else {}

    def ways(
        self, plan: Plan, operation: Operation, values: Mapping[str, Matrix[Any]], given: Mapping[str, Matrix[Any]]
    ) -> list[Matrix[Any]]:
        """Weights come from the exponentials as they are written, or straight from the scores."""
        made = [compute(plan, operation, ARITHMETIC, values, given)]
        if operation.op == "softargmax":
            scores = {symbol: value for symbol, value in given.items() if symbol not in operation.inputs[1:]}
            made.append(compute(plan, operation, ARITHMETIC, values, scores))
        return made

    def hold(self, symbol: str, shape: Shape, values: dict[str, Matrix[Any]], given: dict[str, Matrix[Any]]) -> None:
        """From here on the learner's own values count again; sums along the other axis lie the other way."""
        written = self.judge.given.get(symbol)
        if written is None:
            return
        turned = written.shape != shape
        values[symbol] = self.judge.values[symbol].T if turned else self.judge.values[symbol]
        given[symbol] = written.T if turned else written

    def compared(self, symbol: str, ways: Sequence[Matrix[Any]]) -> dict[Place, Any] | None:
        """Each written cell of the symbol with the value that it agrees with, or None; None if nothing is written."""
        shape = ways[0].shape
        if symbol in self.own:
            expected = self.judge.exact[symbol].shape
            turned = shape != expected and shape == expected[::-1] and 1 in shape
            if shape != expected and not turned:
                return {(symbol, i, j): None for i, j in self.own[symbol]}
            return {
                (symbol, i, j): _agreeing([way[(j, i) if turned else (i, j)] for way in ways], own)
                for (i, j), own in self.own[symbol].items()
            }
        other = self.sheet.misshaped.get(symbol)
        if other is None:
            return None
        same = other.shape == shape and all(closeness(ways[0][i, j], own) == "right" for i, j, own in other.cells())
        at = [place for place in self.left if place[0] == symbol]
        inside = [place for place in at if place[1] < shape[0] and place[2] < shape[1]]
        return {place: ways[0][place[1], place[2]] if place in inside else True for place in at} if same else {}

    # -- cells -------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        for symbol in dict.fromkeys(s for s, _, _ in sorted(self.left, key=lambda p: self.plan.symbols.index(p[0]))):
            wrong = [c for c in self.cells if (c.symbol, c.row, c.column) in self.left and c.symbol == symbol]
            if symbol in self.own:
                ways = self.ways(self.plan, self.plan[symbol], self.judge.values, self.judge.given)
                bases = (_tightest(ways), self.judge.exact[symbol])
                used = [matrices[symbol] for matrices in self.sheet.used.values() if symbol in matrices]
                yield Step(self.plan, symbol, self.own[symbol], wrong, self.judge.values, bases, used)

    def local(self) -> list[Slip]:
        return [slip for step in self.steps() for slip in (*step.swapped(), *step.signs())]

    def many(self) -> bool:
        """Whether a step has more wrong cells than single slips would explain."""
        return any(not _few(step) for step in self.steps())

    def single(self) -> Iterable[Slip]:
        """What is left: a few wrong cells in a step are as many slips; more than that is no slip that has a name."""
        return [slip for step in self.steps() if _few(step) for slip in step.single()]


def _agreeing(values: Sequence[Any], own: Own) -> Any:
    return next((value for value in values if closeness(value, own) != "wrong"), None)


def _tightest(ways: Sequence[Matrix[Any]]) -> Matrix[Any]:
    """Cell by cell the narrower of the balls; from rounded exponentials nothing at all may follow."""
    best = ways[0]
    for way in ways[1:]:
        best = best.zip(way, lambda a, b: b if a is not MASKED and (not a.is_finite() or b.rad() < a.rad()) else a)
    return best


def _few(step: Step) -> bool:
    return len(step.wrong) <= min(FEW, max(1, len(step.own) // 3))
