"""The answer of a chain, and numbers that have no value."""

from __future__ import annotations

from glassformer.worked.check.answer import answer, troubles
from glassformer.worked.read import read


def test_the_last_numbers_of_the_chain() -> None:
    found = answer(read(r"$$w_{1,2} = e^2/13.8256 = 0.5343$$").statements[0], 10)
    assert found is not None
    assert found.rows[0][0] is not None
    assert found.rows[0][0].text == "0.5343"


def test_a_matrix_with_an_open_cell_is_one() -> None:
    found = answer(read("Q: [[1, null], [2, 3]]", "a.yaml").statements[0], 10)
    assert found is not None
    assert found.rows[0][1] is None


def test_too_large_or_without_a_value() -> None:
    statement = read("Q: [[1, 2], [3, 4]]", "a.yaml").statements[0]
    assert answer(statement, 3) is None
    assert list(troubles(statement, 3)) == [(1, "no step of this exercise is 2×2")]
    assert list(troubles(read("Q: [[9**9**9]]", "a.yaml").statements[0], 9)) == [
        (1, "the power is too large to compute")
    ]


def test_inequalities_are_no_answers() -> None:
    assert answer(read(r"$$w_{1,2} > 0.5$$").statements[0], 10) is None
