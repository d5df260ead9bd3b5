"""Homework in fifty forms: at least 95 % of the numbers are found, and no verdict is false."""

from __future__ import annotations

import pytest

from exercises.homework import FORMS, Measured, everything, measure, solutions


def complaint(made: Measured) -> str:
    return f"{made.form}: {made.found} of {made.cells} found, {made.false} {made.error}"


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
