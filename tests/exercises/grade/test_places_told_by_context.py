"""Numbers whose place follows from the row, the quotient or the name next to them."""

from __future__ import annotations

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import render, solve

THREE = "Q: [[1, 2], [3, 1], [0, 2]]\nK: [[1, 2], [1, 1], [-1, 2]]\nV: [[3, 2], [1, 1], [2, 5]]\n"
COLUMNS = "layout: columns\nQ: [[1, 0], [2, 1], [1, 0]]\nK: [[1, 1, -1], [0, 1, 1], [1, 2, 0]]\nV: [[2, 3, -1]]\n"
BLOCK = """
title: A whole block
X: [[1, 0], [0, 2], [1, 1]]
heads:
  - {WQ: [[1, 1], [0, 1]], WK: [[1, 0], [1, 1]], WV: [[2, 0], [0, 1]]}
residual: true
layernorm: {gamma: [1, 2], beta: [0, 1/2], eps: 1/10}
ffn: {W1: [[1, -1, 0], [0, 1, 2]], b1: [0, 1, -1], W2: [[1, 0], [1, 1], [0, 1/2]], b2: [1/4, 0]}
"""


def graded(exercise: str | Exercise, text: str) -> Grade:
    return grade(load_exercise(exercise) if isinstance(exercise, str) else exercise, read(text))


def verdicts(found: Grade, symbol: str) -> list[tuple[int, int, str | None, str]]:
    return [(c.row, c.column, c.given, c.verdict) for c in found.cells if c.symbol == symbol and c.given is not None]


def test_the_dot_products_in_quotients_are_graded() -> None:
    found = graded(COLUMNS, "score(q1, k1) = 2 / 1.732 = 1.155\n\nscore(q1, k3) = 4 / 1.732 = 2.309\n")
    assert verdicts(found, "KtQ") == [(1, 1, "2", "right"), (3, 1, "4", "wrong")]
    assert verdicts(found, "S") == [(1, 1, "1.155", "right"), (3, 1, "2.309", "follows")]


def test_exponentials_over_their_sum_are_graded() -> None:
    found = graded(THREE, "a1 = softmax(s1) = (34.31, 8.34, 8.34) / 51.00 = (0.673, 0.164, 0.164)\n")
    assert [cell[2:] for cell in verdicts(found, "E")] == [("34.31", "right"), ("8.34", "right"), ("8.34", "right")]
    assert verdicts(found, "Z") == [(1, 1, "51.00", "right")]


@pytest.mark.parametrize("name", ["score(q_2, k_3)", "k_3^T q_2", "q_2 \\cdot k_3 / \\sqrt{3}"])
def test_named_vectors_tell_the_cell_of_a_score_in_columns(name: str) -> None:
    written = "0.577" if "score" in name or "sqrt" in name else "1"
    found = graded(COLUMNS, f"${name} = {written}$")
    assert [(c.row, c.column, c.verdict) for c in found.cells if c.given is not None] == [(3, 2, "right")]


def test_a_matrix_begins_on_the_line_of_its_name() -> None:
    found = read("Q2 = [ 1 0 ]\n[ 0 0 ]\n[ 2 3 ]\n\nH2 = A2 V2 = [ 1.0 -2.0 ]\n[ 2.5 1.5 ]\n").statements
    assert [(each.target.label if each.target else "", each.terms[-1].term.shape) for each in found] == [
        ("Q_2", (3, 2)), ("H_2", (2, 2)),
    ]  # fmt: skip


def test_a_row_after_its_exponentials_needs_no_name() -> None:
    text = """score(q2, k1) = 0
score(q2, k2) = 1
score(q2, k3) = 2
score(q2, k4) = 0
exponentielles : [1.00 ; 2.72 ; 7.39 ; 1.00]
somme = 1.00 + 2.72 + 7.39 + 1.00 = 12.11
softmax -> [0.083 ; 0.225 ; 0.610 ; 0.083]
z2 = [0.532 ; 1.670]

score(q3, k1) = 0
score(q3, k2) = 3
score(q3, k3) = 2
score(q3, k4) = 1
exponentielles : [1.00 ; 20.09 ; 7.39 ; 2.72]
somme = 1.00 + 20.09 + 7.39 = 28.48
softmax -> [0.035 ; 0.705 ; 0.259 ; 0.096]
z3 = [1.506 ; 1.930]
"""
    found = graded(library.get("first-look"), text)
    assert verdicts(found, "Z") == [(2, 1, "12.11", "right"), (3, 1, "28.48", "wrong")]
    assert [cell[3] for cell in verdicts(found, "A")] == ["right"] * 4 + ["follows"] * 4
    assert [cell[3] for cell in verdicts(found, "H")] == ["right"] * 2 + ["follows"] * 2  # 1.930: weights not rounded
    assert [mistake.name for mistake in found.mistakes] == ["an exponential left out of the sum"]


def test_several_quantities_stand_on_one_line() -> None:
    found = read("Wort 2:\nScores: 0; 1\nExponentiale: 1.00; 2.72  Summe: 3.72\n").statements
    assert [each.target.label for each in found if each.target] == ["score_2", "exponential_2", "sum"]


def test_a_supposition_goes_on_after_and() -> None:
    found = graded(THREE, "$a_{11} = 0.6728$.\n\nSuppose $a_{21} = 0.5$ and $a_{22} = 0.5$, that would be a tie.\n")
    assert (found.accounting.graded, found.accounting.unread) == (1, 0)


def test_a_version_is_no_answer() -> None:
    found = graded(THREE, "PyTorch 2.4.1, R 4.3.2\n\n$a_{11} = 0.6728$\n")
    assert (found.accounting.graded, found.accounting.unread) == (1, 0)


def test_a_row_of_expressions_divided_by_spaces() -> None:
    text = "E = exp(S) = [e²  e^(1/2)  e²  e  e^(1/2)] ≈ [7.3891  1.6487  7.3891  2.7183  1.6487]\n"
    found = graded("scale: 1/2\nQ: [[2]]\nK: [[2], [1/2], [2], [1], [1/2]]\nV: [[1], [2], [3], [4], [5]]\n", text)
    assert all(finding.verdict == "right" for finding in found.arithmetic)
    assert len(verdicts(found, "E")) == 5


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_the_solution_of_a_block_comes_back_as_right(form: str) -> None:
    exercise = load_exercise(BLOCK)
    text = render(solve(exercise), form)
    assert len(text) < 20_000  # exact forms of 300 characters in a cell are left out
    found = grade(exercise, read(text))
    assert (found.score, found.accounting.unread) == (1.0, 0)
