"""Slips planted in fresh exercises are named, and nothing else is; an unspoilt solution has none."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from glassformer.worked import library
from glassformer.worked.check import check
from glassformer.worked.problem import load
from glassformer.worked.read import read

PLAN_SLIPS = (
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
CELL_SLIPS = ("two rows swapped", "a sign dropped", "one arithmetic slip in one cell")


def named(maker, slip: str, count: int) -> tuple[int, Counter[tuple[str, ...]]]:  # type: ignore[no-untyped-def]
    """How many of `count` exercises in which the slip changes a number have it named, and what else was."""
    hits, others = 0, Counter[tuple[str, ...]]()
    done = seed = 0
    while done < count:
        seed += 1
        rng = random.Random(f"{slip}{seed}")
        form, digits = rng.choice(("markdown", "latex")), rng.randint(3, 6)
        spoilt = maker.spoil(slip, rng, form, digits)
        if spoilt is None or not spoilt.changes:
            continue
        done += 1
        report = maker.check(spoilt.exercise, spoilt.text, "working.md" if form == "markdown" else "working.tex")
        names = tuple(found.name for found in report.slips)
        hits += names == (slip,)
        if names != (slip,):
            others[names] += 1
    return hits, others


@pytest.mark.parametrize("slip", [*PLAN_SLIPS, *CELL_SLIPS])
def test_a_planted_slip_is_named(maker, slip: str) -> None:  # type: ignore[no-untyped-def]
    hits, others = named(maker, slip, 6)
    assert hits >= 5, others


@pytest.mark.slow
@pytest.mark.parametrize("slip", [*PLAN_SLIPS, *CELL_SLIPS])
def test_a_planted_slip_is_named_in_95_of_100(maker, slip: str) -> None:  # type: ignore[no-untyped-def]
    hits, others = named(maker, slip, 100)
    assert hits >= 95, f"{slip}: {hits} of 100, otherwise {dict(others)}"


def test_found_where_the_step_itself_is_not_written() -> None:
    """Only the weights are given: those of scores that were not scaled."""
    report = check(library.get("root-three"), read("A: [[0.9991, 0.0009], [0.9933, 0.0067]]", "a.yaml"))
    assert [slip.name for slip in report.slips] == ["no √d_k"]


def test_one_slip_in_each_head() -> None:
    text = "S1: [[78, 71], [73, 68]]\nA2: [[1063264458.9, 105604190.8], [342012246799.4, 6009819179.3]]"
    report = check(library.get("two-heads"), read(text, "a.yaml"))
    assert [slip.name for slip in report.slips] == ["no √d_k", "exponentials not normalised"]
    assert [slip.where for slip in report.slips] == ["S1", "A2"]


def test_the_same_slip_in_both_heads_is_one() -> None:
    report = check(library.get("two-heads"), read("S1: [[78, 71], [73, 68]]\nS2: [[36, 32], [46, 39]]", "a.yaml"))
    (slip,) = report.slips
    assert slip.where == "S1 and S2"
    assert len(slip.cells) == 8


def test_two_slips_between_which_nothing_is_written() -> None:
    """Weights of unscaled scores, never divided by their sum."""
    text = "QKt: [[1, 0], [0, 2]]"
    exercise = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 2]]\nV: [[1, 2], [3, 4]]\n"
    report = check(load(exercise), read(f"{text}\nA: [[2.71828, 1.00000], [1.00000, 7.38906]]", "a.yaml"))
    (slip,) = report.slips
    assert slip.name == "no √d_k and exponentials not normalised"


def test_an_output_of_the_wrong_size() -> None:
    exercise = "Q: [[1, 0]]\nK: [[1, 0], [0, 2]]\nV: [[1, 2], [3, 4]]\nWO: [[1], [2]]\nscale: none\n"
    report = check(load(exercise), read("H: [[1.538, 2.538]]\nO: [[1.538, 2.538]]", "a.yaml"))
    assert [slip.name for slip in report.slips] == ["W_O forgotten"]
    assert [(c.symbol, c.verdict) for c in report.cells if c.verdict != "right"] == [("O", "wrong")]


def test_the_reason_says_what_the_number_would_be() -> None:
    report = check(library.get("root-three"), read("S: [[78, 71], [73, 68]]", "a.yaml"))
    assert "S[1,1] becomes 78, as you wrote, and should be 45.0333" in report.slips[0].why
