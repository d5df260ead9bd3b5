"""right, follows, rounded, wrong: from the exact value, from the learner's own, by intervals."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from flint import fmpq

from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.grade.align import Aligner
from glassformer.exercises.grade.verdict import FollowThrough, exact_values
from glassformer.exercises.numbers import Exact
from glassformer.exercises.plan import evaluate_plan, plan
from glassformer.exercises.reader import read


def verdicts(exercise: str, text: str, name: str = "a.yaml") -> dict[tuple[str, int, int], str]:
    made = plan(library.get(exercise))
    alignment = Aligner(made, read(text, name)).run()
    found = FollowThrough(made, exact_values(made), alignment.entries(), alignment.used).run()
    return {(c.symbol, c.row + 1, c.column + 1): c.verdict for c in found.cells}


def test_follow_through() -> None:
    """Q wrong in one cell, the scores from it, the rest from the scores."""
    found = verdicts("root-three", "QKt: [[78, 71], [74, 68]]\nS: [[45.03, 40.99], [42.72, 39.26]]\n")
    assert found["QKt", 2, 1] == "wrong"
    assert found["S", 2, 1] == "follows"
    assert found["S", 1, 1] == "right"


def test_what_was_right_all_along_stays_right_after_a_mistake() -> None:
    found = verdicts("root-three", "QKt: [[78, 71], [74, 68]]\nS: [[45.03, 40.99], [42.15, 39.26]]\n")
    assert found["S", 2, 1] == "right"


def test_a_number_that_follows_from_what_should_have_been_written() -> None:
    """The weights are right, H is miscopied in a cell, O follows from the H that was meant."""
    made = plan(library.get("two-heads"))
    right = evaluate_plan(made, EXACT)
    H = [[x.decimal(3) for x in row] for row in right["H2"]]
    H[1][2] = "9.195"
    O = [[x.decimal(3) for x in row] for row in right["O"]]
    O[1][4] = "56.581"  # neither exact nor from 9.195: wrong
    found = verdicts("two-heads", f"H2: {H}\nO: {O}\n".replace("'", ""))
    assert found["H2", 2, 3] == "wrong"
    assert {v for (s, i, j), v in found.items() if s == "O" and (i, j) != (2, 5)} == {"right"}
    assert found["O", 2, 5] == "wrong"


def test_weights_that_sum_to_1_do_not_let_every_sum_pass() -> None:
    rows = "A: [[0.983, 0.017], [0.947, 0.053]]\nH: [[11.983, 8.017, 10.051], [11.947, 8.053, {}]]\n"
    assert verdicts("root-three", rows.format("10.159"))["H", 2, 3] == "follows"  # 0.947·10 + 0.053·13
    assert verdicts("root-three", rows.format("10.158"))["H", 2, 3] == "right"
    assert verdicts("root-three", rows.format("10.166"))["H", 2, 3] == "wrong"


def test_masked_scores() -> None:
    found = verdicts("causal", "S: [[1, -1000000000, -inf], [2, 2, 4], [3, 2, 5]]\n")
    assert found["S", 1, 2] == "right"
    assert found["S", 1, 3] == "right"
    assert found["S", 2, 3] == "wrong"


def test_exponentials_rounded_to_nothing_do_no_harm() -> None:
    """E = 0.00 would divide by zero; the weights come from the scores."""
    found = verdicts("beta", "S: [[2, 0, 2]]\nE: [[7.4, 0.0, 7.4]]\nA: [[0.468, 0.063, 0.468]]\n")
    assert found["A", 1, 1] == "right"


@pytest.mark.parametrize("seed", range(25))
def test_correctly_rounded_is_right_and_one_unit_off_is_not(maker, seed: int) -> None:  # type: ignore[no-untyped-def]
    """Any number of digits, each cell on its own; only the weights are given, so nothing can follow."""
    rng = random.Random(seed)
    exercise = maker.exercise(rng)
    made = plan(exercise)
    right = evaluate_plan(made, EXACT)
    A = next(s for s in made.symbols if s[0] == "A")
    places = [[rng.randint(2, 8) for _ in row] for row in right[A]]
    cells = [[x.decimal(p) for x, p in zip(*pair, strict=True)] for pair in zip(right[A], places, strict=True)]
    graded = maker.grade(exercise, f"{A}: {cells}".replace("'", ""), "a.yaml")
    assert {c.verdict for c in graded.cells if c.given is not None} == {"right"}
    for sign in (-1, 1):
        off = [
            [(x + Exact(sign) / Exact(10) ** p).decimal(p) for x, p in zip(*pair, strict=True)]
            for pair in zip(right[A], places, strict=True)
        ]
        graded = maker.grade(exercise, f"{A}: {off}".replace("'", ""), "a.yaml")
        for cell in (c for c in graded.cells if c.given is not None):
            exact = right[A][cell.row - 1, cell.column - 1]
            if float(exact) in (0, 1):  # to more digits than are computed with
                continue
            p = places[cell.row - 1][cell.column - 1]
            written = Exact(fmpq(*Fraction(cell.given).as_integer_ratio()))
            cut_off = sign < 0 and not exact < written and exact - written < Exact(10) ** -p
            assert cell.verdict == ("right" if cut_off else "rounded")


def test_weights_set_out_in_the_output_of_the_only_head() -> None:
    """O is the copy of H, and follows from the weights that its own line sets out."""
    text = "o_1 = 0.2 v_1 + 0.3 v_2 + 0.5 v_3 + 0 v_4 = ({}, {})\n"
    made = exact_values(plan(library.get("four-tokens")))["V"]
    weights = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2), Fraction(0))
    sums = [sum(w * Fraction(str(float(made[k, j]))) for k, w in enumerate(weights)) for j in range(2)]
    found = verdicts("four-tokens", text.format(*(f"{float(x):.1f}" for x in sums)), "a.txt")
    assert {verdict for (symbol, *_), verdict in found.items() if symbol == "O"} <= {"follows", "right"}
    assert ("A", 1, 2) in found
