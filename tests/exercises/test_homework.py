"""Homework in fifty forms: at least 95 % of the numbers are found, and no verdict is false."""

from __future__ import annotations

import pytest

from exercises.homework import FORMS, Measured, everything, measure, solutions
from glassformer.errors import InputError
from glassformer.exercises.grade import grade
from glassformer.exercises.reader import read


def complaint(made: Measured) -> str:
    return f"{made.form}: {made.found} of {made.cells} found, {made.false} {made.error}"


@pytest.mark.variants(18)
@pytest.mark.parametrize("form", sorted(FORMS))
def test_numbers_are_found_and_judged(form: str) -> None:
    made = measure(form, "small", digits=4, mistakes=2, seed=1)
    assert made.found >= 0.95 * made.cells, complaint(made)
    assert not made.false, complaint(made)
    assert made.unread <= 0.05 * made.numbers, complaint(made)


@pytest.mark.slow
def test_every_form_for_every_exercise() -> None:
    """Over all documents and in each form at least 95 % is found; not one verdict is false."""
    every = list(everything())
    assert len(every) >= 9 * len(FORMS)
    assert sum(made.found for made in every) >= 0.98 * sum(made.cells for made in every)
    for form in FORMS:
        here = [made for made in every if made.form == form]
        assert sum(made.found for made in here) >= 0.95 * sum(made.cells for made in here), form
    assert [complaint(made) for made in every if made.false or made.error] == []


def test_the_exercises_have_three_kinds() -> None:
    assert {name: solution.exercise.mask for name, solution in solutions().items()}["masked"] == "causal"


THEORY = """Self-attention maps queries of dimension 64 to outputs. For token 1 the weights sum to 1.
The softmax of token 2 is between 0 and 1. A weight of 0.5 means that half of the attention goes to token 2.
In the paper, the base model has 6 layers, 8 heads and width 512; dropout is 0.1.
Token 1 attends to itself. Attention costs O(n^2). The output of layer 1 is the input of layer 2.
For example, token 1 could attend to token 2 with 0.7.
"""


def test_theory_is_not_graded() -> None:
    exercise = solutions()["small"].exercise
    try:
        graded = grade(exercise, read(THEORY))
    except InputError:
        return  # no number at all can be read
    assert graded.score is None
    assert not graded.cells or all(cell.given is None for cell in graded.cells)
