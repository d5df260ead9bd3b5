"""Exercises made at will, their solutions rendered and spoilt: what the checker is tried on."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from flint import fmpq

from glassformer.errors import GlassError
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.grade.mistakes import CATALOGUE, hypotheses
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact, Masked
from glassformer.exercises.plan import Plan, evaluate_plan, plan
from glassformer.exercises.reader import read
from glassformer.exercises.solution import Solution, Step, render
from glassformer.exercises.steps import decimal_array

PLAN_MISTAKES = (
    "no √d_k",
    "d instead of d_k",
    "softargmax over the wrong axis",
    "K not transposed",
    "weights and inputs multiplied in the wrong order",
    "mask after the softargmax",
    "future and past swapped",
    "exponentials not normalised",
    "W_O forgotten",
    "heads concatenated in the wrong order",
)
CELL_MISTAKES = ("two rows swapped", "a sign dropped", "one wrong number")
assert set(PLAN_MISTAKES) <= {kind.name for kind in CATALOGUE}


@dataclass(frozen=True)
class Spoilt:
    """A solution with one mistake in it, and the document that a learner would hand in."""

    exercise: Exercise
    plan: Plan
    given: dict[str, Matrix[Any]]
    text: str
    changes: bool


class Maker:
    """Everything that the checker's tests make, from a seed."""

    plan_mistakes, cell_mistakes = PLAN_MISTAKES, CELL_MISTAKES

    def exercise(self, rng: random.Random, **fixed: Any) -> Exercise:
        n, d = rng.randint(2, 4), rng.randint(2, 3)
        heads = fixed.get("heads", rng.choice((1, 1, 2)))
        layout = rng.choice(("rows", "columns"))
        dk = fixed.get("dk", rng.choice((d, d, 1, 2, 3)))
        n = fixed.get("n", n)

        def matrix(rows: int, columns: int) -> list[list[int]]:
            return [[rng.randint(-2, 3) for _ in range(columns)] for _ in range(rows)]

        def oriented(tokens: int, width: int) -> list[list[int]]:
            return matrix(tokens, width) if layout == "rows" else matrix(width, tokens)

        data: dict[str, Any] = {
            "layout": layout,
            "X": oriented(n, d),
            "heads": [{name: oriented(d, dk) for name in ("WQ", "WK", "WV")} for _ in range(heads)],
            "scale": fixed.get("scale", rng.choice(("1/sqrt(dk)", "1/sqrt(dk)", "none", "1/2"))),
            "mask": fixed.get("mask", rng.choice(("none", "none", "causal"))),
        }
        if fixed.get("WO", rng.random() < 0.5):
            data["WO"] = oriented(dk * heads, rng.choice((dk * heads, d)))
        return from_data(data)

    def solution(self, exercise: Exercise, made: Plan, given: dict[str, Matrix[Any]] | None = None) -> Solution:
        """The plan's values under the formulas that the exercise asks for: nobody writes a mistake down."""
        values = evaluate_plan(made, EXACT, given)
        steps = []
        for op in plan(exercise).operations:
            names = made[op.symbol].operands
            names = names if made[op.symbol].op == op.op and len(names) == len(op.operands) else op.operands
            operands = tuple((name, _operand(values, used)) for name, used in zip(op.operands, names, strict=True))
            steps.append(Step(op.symbol, op.formula, operands, values[op.symbol], op))
        return Solution(exercise, made, tuple(steps), values)

    def document(self, solution: Solution, form: str = "markdown", digits: int = 4) -> str:
        return render(solution, form, digits=digits)

    def grade(self, exercise: Exercise, text: str, name: str = "working.md") -> Grade:
        return grade(exercise, read(text, name))

    def spoil(self, mistake: str, rng: random.Random, form: str = "markdown", digits: int = 4) -> Spoilt | None:
        """A fresh exercise with the mistake made in it; None where that exercise does not allow it."""
        exercise = self.exercise(rng, **_needed(mistake, rng))
        made = plan(exercise)
        right = evaluate_plan(made, EXACT)
        given: dict[str, Matrix[Any]] = {}
        edited = made
        if mistake in PLAN_MISTAKES:
            ways = [h for h in hypotheses(made, exercise) if h.kind.name == mistake]
            rng.shuffle(ways)
            edited = next((h.plan for h in ways if _possible(h.plan)), made)
            if edited is made:
                return None
        else:
            found = self._cells(mistake, made, right, rng, digits)
            if found is None:
                return None
            given = dict([found])
        wrong = evaluate_plan(edited, EXACT, given)
        text = self.document(self.solution(exercise, edited, given), form, digits)
        changes = any(_differ(right[s], wrong[s], digits) for s in made.symbols)
        return Spoilt(exercise, edited, given, text, changes)

    def _cells(
        self, mistake: str, made: Plan, right: dict[str, Matrix[Any]], rng: random.Random, digits: int
    ) -> tuple[str, Matrix[Any]] | None:
        names = [s for s in made.symbols if s[0] in "QKVSAHO" and not (s[0] == "O" and made[s].op == "copy")]
        symbol = rng.choice(names)
        rows = [list(row) for row in right[symbol]]
        i, j = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
        if mistake == "two rows swapped":
            k = rng.choice([k for k in range(len(rows)) if k != i] or [i])
            rows[i], rows[k] = rows[k], rows[i]
        elif isinstance(rows[i][j], Masked):
            return None
        elif mistake == "a sign dropped":
            if not rows[i][j] < 0:
                return None
            rows[i][j] = -rows[i][j]
        else:
            up = symbol[0] == "A" or rng.random() < 0.5  # by 1: no sign of a product of whole numbers
            wrong = Fraction((rows[i][j] + Exact(1 if up else -1)).decimal(digits))  # what is written is all there is
            rows[i][j] = Exact(fmpq(wrong.numerator, wrong.denominator))
        return symbol, Matrix.of(rows)


def _needed(mistake: str, rng: random.Random) -> dict[str, Any]:
    """What an exercise needs for the mistake to be possible."""
    dk = rng.choice((2, 3))
    return {
        "no √d_k": {"scale": "1/sqrt(dk)", "dk": dk},
        "d instead of d_k": {"scale": "1/sqrt(dk)", "dk": rng.choice((1, 2, 3))},
        "K not transposed": {"n": dk, "dk": dk},
        "mask after the softargmax": {"mask": "causal"},
        "future and past swapped": {"mask": "causal"},
        "W_O forgotten": {"WO": True},
        "heads concatenated in the wrong order": {"heads": 2},
    }.get(mistake, {})


def _operand(values: dict[str, Matrix[Any]], name: str) -> Matrix[Any]:
    return values[name.removesuffix("^T")].T if name.endswith("^T") else values[name]


def _possible(made: Plan) -> bool:
    try:
        evaluate_plan(made, EXACT)
    except GlassError:
        return False
    return True


def _differ(a: Matrix[Any], b: Matrix[Any], digits: int) -> bool:
    """Whether a number that is written down differs; sums that stand in a row or in a column are the same numbers."""
    if a.shape == b.shape[::-1] and 1 in a.shape:
        b = b.T
    return decimal_array(a, digits) != decimal_array(b, digits)


@pytest.fixture
def maker() -> Maker:
    return Maker()
