"""The answer of a chain, and numbers that have no value."""

from __future__ import annotations

from glassformer.worked.check.answer import answer, carried, troubles
from glassformer.worked.read import read
from glassformer.worked.read.term import Name


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


def test_numbers_carried_from_another_name_stand_on_their_own_line() -> None:
    first, second = read("$a_1 = (1, 2)$\n\n$a_4 = a_1$").statements
    given = answer(first, 10)
    assert given is not None
    found = carried(second, {Name("a", (1,)): given})
    assert found is not None
    assert [(own.text, own.line) for _, _, own in found.cells()] == [("1", 3), ("2", 3)]
    assert carried(second, {}) is None
