"""The questions of a worksheet for learning management systems: one numerical field for each number to find.

A system compares every field with one value and cannot follow a learner's earlier numbers, so the tolerance is larger
than the rounding that a sheet asks for. `moodle` and `qti` export them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.numbers import Exact, Masked
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.printers import latex
from glassformer.exercises.question import question
from glassformer.exercises.solution import given, solve
from glassformer.exercises.steps import name

TOLERANCE = 0.001
SMALLEST = 0.0001  # an answer rounded to four decimals, as asked for, is off by up to half of this
_CONTROL = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML does not allow


@dataclass(frozen=True, slots=True)
class QuestionStep:
    """A step to find: its symbol, as LaTeX, in words, and its values as decimals; None where a score is masked."""

    symbol: str
    formula: str
    words: str
    values: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Questions:
    """A worksheet. `given` and `worked` (the solution) are LaTeX; `title` and `text` are plain text."""

    title: str
    text: str
    given: tuple[str, ...]
    steps: tuple[QuestionStep, ...]
    worked: tuple[str, ...]
    tolerance: float


def questions(exercise: Exercise, tolerance: float = TOLERANCE) -> Questions:
    """Return the questions of an exercise; `tolerance` is the largest absolute difference that counts as right."""
    if not SMALLEST <= tolerance < 1:
        raise InputError(f"the tolerance is {tolerance:g}, and answers have four decimals", "choose 0.0001 to 0.999")
    solution = solve(exercise)
    digits = 4 if tolerance >= TOLERANCE else 5  # the written value is much closer than the tolerance
    steps = tuple(
        QuestionStep(
            symbol,
            latex.latex(name(symbol)),
            words,
            tuple(tuple(_decimal(x, digits) for x in row) for row in solution[symbol]),
        )
        for symbol, words in asked(solution)
    )
    return Questions(
        _CONTROL.sub("", " ".join(exercise.title.split())),
        _CONTROL.sub("", " ".join(question(exercise).split())),
        tuple(latex.equation(sides) for sides in given(solution)),
        steps,
        tuple(latex.equation(step.equation()) for step in solution.steps),
        tolerance,
    )


def _decimal(x: Exact | Masked, digits: int) -> str | None:
    if isinstance(x, Masked):
        return None
    whole = x.rational()
    return str(whole.p) if whole is not None and whole.q == 1 else x.decimal(digits)
