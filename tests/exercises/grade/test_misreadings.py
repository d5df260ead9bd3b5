"""Numbers whose place is not certain are not called wrong; numbers whose place is certain are."""

from __future__ import annotations

import pytest

from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve

EXERCISE = load_exercise(
    "X: [[1, 0], [1, 1], [2, 1]]\n"
    "heads: [{WQ: [[2, 0], [0, 1]], WK: [[1, 1], [1, 0]], WV: [[1, 3], [2, 0]]}]\n"
)  # Q = [[2, 0], [2, 1], [4, 1]], K = [[1, 1], [2, 1], [3, 2]], V = [[1, 3], [3, 3], [4, 6]]
RAW = "S = [[2, 4, 6], [3, 5, 8], [5, 9, 14]]"


def graded(text: str) -> Grade:
    return grade(EXERCISE, read(f"{text}\n", "a.txt"))


def verdicts(text: str) -> set[tuple[str, str]]:
    return {(cell.symbol, cell.verdict) for cell in graded(text).cells if cell.given is not None}


def solution(symbol: str) -> list[list[str]]:
    return [[str(x.decimal(4)) for x in row] for row in solve(EXERCISE)[symbol]]


def matrix(symbol: str, rows: list[list[str]] | None = None) -> str:
    return "[" + ", ".join(f"[{', '.join(row)}]" for row in rows or solution(symbol)) + "]"


def test_scores_whose_weights_are_right_were_scaled() -> None:
    assert ("S", "wrong") in verdicts(RAW)
    found = verdicts(f"{RAW}\nA = {matrix('A')}")
    assert ("A", "right") in found
    assert "wrong" not in {verdict for _, verdict in found}


def test_scores_whose_weights_follow_are_wrong() -> None:
    text = f"{RAW}\nA = [[0.0159, 0.1173, 0.8668], [0.0064, 0.0471, 0.9465], [0.0001, 0.0067, 0.9932]]"
    assert verdicts(text) == {("S", "wrong"), ("A", "follows")}
    assert [mistake.name for mistake in graded(text).mistakes] == ["no √d_k"]


def test_a_matrix_with_the_numbers_of_another_step_is_that_step() -> None:
    found = graded("K = [[1, 3], [3, 3], [4, 6]]")
    assert {(c.symbol, c.verdict) for c in found.cells if c.given is not None} == {("V", "right")}
    assert "taken as V" in found.notes[0].assumption


def test_the_numbers_of_a_step_that_is_written_already_are_listed() -> None:
    found = graded("V = [[1, 3], [3, 3], [4, 6]]\nK = [[1, 3], [3, 3], [4, 6]]")
    assert {(c.symbol, c.verdict) for c in found.cells if c.given is not None} == {("V", "right")}
    assert "those of V" in found.unread[0].reason


def test_cells_indexed_by_key_and_query() -> None:
    text = "s_{12} = 2.121\ns_{21} = 2.828\ns_{13} = 3.536\ns_{31} = 4.243\n"
    assert verdicts(text) == {("S", "right")}


def test_weights_in_percent_without_a_sign() -> None:
    rows = [[f"{100 * float(x):.1f}" for x in row] for row in solution("A")]
    assert verdicts(f"A = {matrix('A', rows)}") == {("A", "right")}


@pytest.mark.parametrize(
    "text",
    [
        "K = [[1, 1], [2, 1], [3, 7]]",  # one wrong number
        "K = [[8.25, 3.5], [1.75, 4.5], [7.25, 9.5]]",  # numbers of no step
        "s_{12} = 2.345\ns_{21} = 6.789",
    ],
)
def test_wrong_numbers_under_a_name_are_wrong(text: str) -> None:
    assert "wrong" in {verdict for _, verdict in verdicts(text)}


TWO_QUERIES = load_exercise("Q: [[1, 1], [0, 2]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[2, 1], [0, 4], [1, 3]]\n")
UNSCALED = "a_1 = (0.2119, 0.2119, 0.5761)"  # the shares of e, e and e²


def of_two_queries(text: str) -> Grade:
    return grade(TWO_QUERIES, read(f"{text}\n", "a.txt"))


def given_verdicts(found: Grade) -> dict[tuple[str, int, int], str]:
    return {(cell.symbol, cell.row, cell.column): cell.verdict for cell in found.cells if cell.given is not None}


def test_a_known_mistake_is_not_assumed_if_the_numbers_follow_from_unread_ones() -> None:
    found = of_two_queries(f"bla 2.72 bla 2.72 bla 7.39 bla\n{UNSCALED}")
    assert given_verdicts(found) == {}
    assert found.mistakes == ()
    assert "may follow from numbers that could not be read" in found.unread[-1].reason


@pytest.mark.parametrize("before", ["", "bla 41.1 bla 63.2 bla 98.7 bla\n"])
def test_a_known_mistake_is_named_if_the_numbers_do_not_follow_from_unread_ones(before: str) -> None:
    found = of_two_queries(f"{before}{UNSCALED}")
    assert set(given_verdicts(found).values()) == {"wrong"}
    assert [mistake.name for mistake in found.mistakes] == ["no √d_k"]


def test_a_number_is_not_called_rounded_if_it_follows_from_an_unread_one() -> None:
    """0.248 + 4·0.249 + 3·0.503 = 2.753, and the exact result is 2.752."""
    found = of_two_queries("weights of query 1: first 0.248, next to it 0.249 (hm), then 0.503\no1 = (0.999, 2.753)")
    assert ("O", 1, 2) not in given_verdicts(found)
    assert "rounded" not in given_verdicts(found).values()


def test_weights_written_and_used_transposed_are_a_mistake() -> None:
    turned = [list(row) for row in zip(*solution("A"), strict=True)]
    output = "[[0.128, 0.223], [0.613, 1.043], [7.259, 10.735]]"
    found = graded(f"A = {matrix('A', turned)}\nO = {output}")
    assert {verdict for (symbol, *_), verdict in given_verdicts(found).items() if symbol == "O"} == {"follows"}
    assert given_verdicts(found)["A", 1, 2] == "wrong"
    assert [mistake.name for mistake in found.mistakes] == ["A transposed"]


def test_weights_that_are_only_written_transposed_are_right() -> None:
    turned = [list(row) for row in zip(*solution("A"), strict=True)]
    assert "wrong" not in {verdict for _, verdict in verdicts(f"A = {matrix('A', turned)}")}
    assert "wrong" not in {verdict for _, verdict in verdicts(f"A = {matrix('A', turned)}\nO = {matrix('O')}")}


def test_a_matrix_below_the_formula_of_its_name_is_certain() -> None:
    wrong = "[[9, 9.5], [8, 8.5], [7, 7.5]]"
    assert verdicts(f"V = {matrix('V')}\n\nH = A V\n\n{wrong}") == {("V", "right"), ("H", "wrong")}
