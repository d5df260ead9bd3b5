"""Mistakes planted in fresh exercises are named, and nothing else is; an unspoilt solution has none."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import from_data, load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read

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


BY_A_WRONG_TERM = "one arithmetic mistake in one cell"  # a random number may happen to be one that a wrong term gives


def named(maker, mistake: str, count: int) -> tuple[int, Counter[tuple[str, ...]]]:  # type: ignore[no-untyped-def]
    """How many of `count` exercises in which the mistake changes a number have it named, and what else was."""
    hits, others = 0, Counter[tuple[str, ...]]()
    done = seed = 0
    while done < count:
        seed += 1
        rng = random.Random(f"{mistake}{seed}")
        form, digits = rng.choice(("markdown", "latex")), rng.randint(3, 6)
        spoilt = maker.spoil(mistake, rng, form, digits)
        if spoilt is None or not spoilt.changes:
            continue
        done += 1
        graded = maker.grade(spoilt.exercise, spoilt.text, "working.md" if form == "markdown" else "working.tex")
        names = tuple(found.name for found in graded.mistakes)
        hit = names == (mistake,) or (mistake == "one wrong number" and names == (BY_A_WRONG_TERM,))
        hits += hit
        if not hit:
            others[names] += 1
    return hits, others


@pytest.mark.variants(3)
@pytest.mark.parametrize("mistake", [*PLAN_MISTAKES, *CELL_MISTAKES])
def test_a_planted_mistake_is_named(maker, mistake: str) -> None:  # type: ignore[no-untyped-def]
    hits, others = named(maker, mistake, 3)
    assert hits >= 2, others


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [*PLAN_MISTAKES, *CELL_MISTAKES])
def test_a_planted_mistake_is_named_in_95_of_100(maker, mistake: str) -> None:  # type: ignore[no-untyped-def]
    hits, others = named(maker, mistake, 100)
    assert hits >= 95, f"{mistake}: {hits} of 100, otherwise {dict(others)}"


def test_found_where_the_step_itself_is_not_written() -> None:
    """Only the weights are given: those of scores that were not scaled."""
    graded = grade(library.get("root-three"), read("A: [[0.9991, 0.0009], [0.9933, 0.0067]]", "a.yaml"))
    assert [mistake.name for mistake in graded.mistakes] == ["no √d_k"]


def test_one_slip_in_each_head() -> None:
    text = "S1: [[78, 71], [73, 68]]\nA2: [[1063264458.9, 105604190.8], [342012246799.4, 6009819179.3]]"
    graded = grade(library.get("two-heads"), read(text, "a.yaml"))
    assert [mistake.name for mistake in graded.mistakes] == ["no √d_k", "exponentials not normalised"]
    assert [mistake.where for mistake in graded.mistakes] == ["S1", "A2"]


def test_the_same_slip_in_both_heads_is_one() -> None:
    graded = grade(library.get("two-heads"), read("S1: [[78, 71], [73, 68]]\nS2: [[36, 32], [46, 39]]", "a.yaml"))
    (mistake,) = graded.mistakes
    assert mistake.where == "S1 and S2"
    assert len(mistake.cells) == 8


def test_two_slips_between_which_nothing_is_written() -> None:
    """Weights of unscaled scores, never divided by their sum."""
    text = "QKt: [[1, 0], [0, 2]]"
    exercise = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 2]]\nV: [[1, 2], [3, 4]]\n"
    graded = grade(load_exercise(exercise), read(f"{text}\nA: [[2.71828, 1.00000], [1.00000, 7.38906]]", "a.yaml"))
    (mistake,) = graded.mistakes
    assert mistake.name == "no √d_k and exponentials not normalised"


def test_an_output_of_the_wrong_size() -> None:
    exercise = "Q: [[1, 0]]\nK: [[1, 0], [0, 2]]\nV: [[1, 2], [3, 4]]\nWO: [[1], [2]]\nscale: none\n"
    graded = grade(load_exercise(exercise), read("H: [[1.538, 2.538]]\nO: [[1.538, 2.538]]", "a.yaml"))
    assert [mistake.name for mistake in graded.mistakes] == ["W_O forgotten"]
    assert [(c.symbol, c.verdict) for c in graded.cells if c.verdict != "right"] == [("O", "wrong")]


def test_the_reason_says_what_the_number_would_be() -> None:
    graded = grade(library.get("root-three"), read("S: [[78, 71], [73, 68]]", "a.yaml"))
    assert "S[1,1] becomes 78, as you wrote, and should be 45.0333" in graded.mistakes[0].why


EXERCISE = {
    "X": [[1, -2], [3, 4], [5, 7]],
    "heads": [{"WQ": [[2, 3], [-1, 4]], "WK": [[1, 0], [0, 1]], "WV": [[1, 1], [0, 1]]}],
    "scale": "none",
}
# Q = [[4, -5], [2, 25], [3, 43]]


def with_Q(Q: str) -> Grade:
    return grade(from_data(EXERCISE), read(f"Q: {Q}", "a.yaml"))


@pytest.mark.parametrize(
    ("Q", "name", "where", "why"),
    [
        ("[[2, 25], [4, -5], [3, 43]]", "two rows swapped", "rows 1 and 2 of Q", "Rows 1 and 2 of Q"),
        ("[[-5, 4], [25, 2], [43, 3]]", "two columns swapped", "columns 1 and 2 of Q", "are swapped"),
        ("[[4, 5], [2, 25], [3, 43]]", "a sign dropped", "Q[1,2]", "the number is right, but its sign is wrong"),
        ("[[0, -5], [10, 25], [17, 43]]", "a sign dropped", "WQ[2,1] in Q", "if WQ[2,1] is 1 instead of -1"),
        ("[[4, -5], [2, 16], [3, 43]]", "one arithmetic mistake in one cell", "Q[2,2]", "the product 3·3 is left out"),
        ("[[4, -5], [2, 34], [3, 43]]", "one arithmetic mistake in one cell", "Q[2,2]", "3·3 is counted twice"),
        ("[[4, -5], [2, 22], [3, 43]]", "one arithmetic mistake in one cell", "Q[2,2]", "3 and 3 are added"),
        ("[[4, -5], [10, 25], [3, 43]]", "a sign dropped", "Q[2,1]", "the product 4·-1 has the wrong sign"),
        ("[[4, -5], [2, 99], [3, 43]]", "one wrong number", "Q[2,2]", "should be 25"),
    ],
)
def test_slips_in_cells(Q: str, name: str, where: str, why: str) -> None:
    (mistake,) = with_Q(Q).mistakes
    assert mistake.name == name
    assert mistake.where == where
    assert why in mistake.why


def test_two_slips_in_two_cells() -> None:
    mistakes = with_Q("[[4, -5], [2, 16], [9, 43]]").mistakes
    assert [mistake.where for mistake in mistakes] == ["Q[2,2]", "Q[3,1]"]


def test_too_many_are_not_given_a_name() -> None:
    graded = with_Q("[[9, 8], [7, 6], [5, 4]]")
    assert graded.count()["wrong"] == 6
    assert graded.mistakes == ()


def test_a_masked_number_set_out_as_an_operand() -> None:
    """−∞ in the operands of a product whose result is wrong: found by fuzzing."""
    text = (
        "`heads := \\begin{bmatrix}1/2 & 99999999999999999999 \\\\ 1/2 & 99999999999999999999\\end{bmatri}`\n"
        "\n"
        "K^\\top Q &= \\fit{\\begin{bmatrix} 0 & 1 \\\\ 1 & 0 \\\\ 1 & 2 \\end{bmatrix} "
        "\\begin{bmatrix} 1 & 0 & -inf \\\\ 1 & 1 & 3 \\end{bmatrix}} \\\\\n"
        "&= \\fit{\\begin{bmatrix} 1 & 1 & 3 \\\\ 1 & sqrt(2) & 2 \\\\ 3 & 2 & 8 \\end{bmatrix}}\n"
        "\\end{align*}\n"
        "\\paragraph{Scaled by $\\beta$}\n"
        "\\begin{align*}\n"
        "S &= \\fit{\\frac{\\sqrt{2}}{2} \\cdot K^\\top Q} \\\\\n"
        "&= \\fit{\\frac{\\sqrt{2}}{2} \\cdot \\begin{bmatri \\cdot "
        "\\begin{bmatrix} 1 & 1 & 3 \\\\ 1 & 0 & 2 \\\\ 3 & 2 & 8 \\end{b\n"
    )
    assert grade(library.get("columns"), read(text)).score is not None


def test_an_output_is_not_called_miscopied_if_nothing_was_copied() -> None:
    exercise = library.get("four-tokens")
    text = "softmax of token 1: 0.1966, 0.5344, 0.0723, 0.1966\no1 = (0, 1.3379)"
    (mistake,) = grade(exercise, read(text, "a.txt")).mistakes
    assert mistake.name == "one wrong number"
    both = f"{text}\nh1 = (0, 0.6621)"
    assert "a number copied wrongly" in {one.name for one in grade(exercise, read(both, "a.txt")).mistakes}


def test_the_first_token_in_a_sentence() -> None:
    text = "For the first token the scores are 1, 2, 0 and 1. After softmax this gives 0.197, 0.534, 0.072 and 0.197."
    found = grade(library.get("four-tokens"), read(text, "a.txt"))
    right = [(cell.symbol, cell.row) for cell in found.cells if cell.verdict == "right"]
    assert right == [("S", 1)] * 4 + [("A", 1)] * 4


def test_a_slip_for_some_tokens_only_is_said_to_be_so() -> None:
    text = "QKt: [[2, 1, 2], [2, 2, 3]]\nS: [[1.4142, 0.7071, 1.4142], [2, 2, 3]]"
    (mistake,) = grade(library.get("cross"), read(text, "a.yaml")).mistakes
    assert (mistake.name, mistake.where) == ("no √d_k", "S")
    assert "only for token 2" in mistake.why
    assert mistake.cells == {("S", 1, 0), ("S", 1, 1), ("S", 1, 2)}


def test_one_number_of_a_token_does_not_show_a_slip() -> None:
    """2 for √2 in one cell, where the others of its row are scaled: no row was left unscaled."""
    text = "QKt: [[2, 1, 2], [2, 2, 3]]\nS: [[1.4142, 0.7071, 1.4142], [2, 1.4142, 2.1213]]"
    (mistake,) = grade(library.get("cross"), read(text, "a.yaml")).mistakes
    assert mistake.name == "one wrong number"


def test_sums_of_one_term_have_none_to_leave_out() -> None:
    """With one query the sums along the other axis have a single term each."""
    graded = grade(library.get("one-query"), read("w_{1,j}: 0\nQ: 0", "a.yaml"))
    assert graded.score is not None
