"""Entries with their digits, tables of them, the cells they fill, and the answer of a statement."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises.expression import Name
from glassformer.exercises.grade.cells import (
    At,
    Entry,
    Table,
    answer_of,
    carried,
    closeness,
    fit,
    format_value,
    is_uncomputed,
    readings,
    table,
    troubles,
)
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.reader import read


def entry(text: str) -> Entry:
    found = link_table(text)
    return next(cell for _, _, cell in found.cells())


def link_table(text: str) -> Table:
    found = table(read(f"$$Q = {text}$$").statements[0].terms[-1])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Q\n1,2\n3,4\n", "a.csv"),
        ("Q,1,2\nQ,3,4\n", "a.csv"),
        ("Q,,,K\n1,2,,5\n3,4,,6\n", "a.csv"),
        ("token,q1,q2\n1,1,2\n2,3,4\n", "a.csv"),
        ("Q:\n- [1, 2]\n- [3, 4]\n", "a.yaml"),
    ],
)
def test_each_number_has_the_line_of_its_row(text: str, name: str) -> None:
    found = table(read(text, name).statements[0].terms[-1])
    assert found is not None
    lines = text.split("\n")
    assert [cell.text in lines[cell.line - 1] for _, _, cell in found.cells()] == [True] * 4


def test_each_number_of_a_list_of_cells_has_its_own_line() -> None:
    text = "symbol,row,column,value\nQ,1,1,7\nQ,1,2,8\nT,,,9\n"
    cells = [cell for statement in read(text, "a.csv").statements for _, _, cell in table(statement.terms[-1]).cells()]
    assert [(cell.text, cell.line) for cell in cells] == [("7", 2), ("8", 3), ("9", 4)]


@given(st.fractions(-100, 100, max_denominator=997), st.integers(1, 8))
def test_a_correctly_rounded_number_is_right_and_the_next_digit_is_not(value: Fraction, places: int) -> None:
    unit = Fraction(1, 10**places)
    nearest = round(value / unit) * unit
    exact = arb(fmpq(value.numerator, value.denominator))
    written = (
        f"{'-' if nearest < 0 else ''}{abs(nearest.numerator * (10**places // nearest.denominator)):0{places + 1}d}"
    )
    text = f"{written[:-places]}.{written[-places:]}"
    assert closeness(exact, entry(text)) == "right"
    off = nearest + 2 * unit if value < nearest else nearest - 2 * unit
    digits = f"{'-' if off < 0 else ''}{abs(off.numerator * (10**places // off.denominator)):0{places + 1}d}"
    assert closeness(exact, entry(f"{digits[:-places]}.{digits[-places:]}")) == "wrong"


@pytest.mark.parametrize(
    ("text", "verdict"), [("0.1967", "rounded"), ("0.1966", "right"), ("0.2", "right"), ("0.1968", "wrong")]
)
def test_last_digits(text: str, verdict: str) -> None:
    assert closeness(arb(1).exp() / arb("13.82562"), entry(text)) == verdict


def test_exact_forms_are_compared_exactly() -> None:
    assert closeness(arb(2).exp() / 3, entry(r"\frac{e^2}{3}")) == "right"
    assert closeness(arb(2).exp() / 3 + arb("1e-10"), entry(r"\frac{e^2}{3}")) == "wrong"


def test_masked_is_minus_infinity_however_it_is_written() -> None:
    assert closeness(MASKED, entry(r"-\infty")) == "right"
    assert closeness(MASKED, entry("-10^9")) == "right"
    assert closeness(MASKED, entry("0")) == "wrong"
    assert closeness(arb(3), entry(r"-\infty")) == "wrong"


def test_nothing_is_right_about_a_value_that_is_not_finite() -> None:
    assert closeness(arb(1) / arb(0), entry("3")) == "wrong"


def test_zeros_left_out_beside_decimals() -> None:
    found = link_table(r"\begin{bmatrix} 8 & 11.98 \end{bmatrix}")
    eight = found.rows[0][0]
    assert eight is not None
    assert eight.places == 2
    assert closeness(arb("8.004"), eight) == "right"
    assert closeness(arb("8.006"), eight) == "truncated"
    assert closeness(arb("7.994"), eight) == "rounded"


def test_open_cells_are_none_and_vectors_know_themselves() -> None:
    found = link_table("[1, 2, 3]")
    assert found.vector is not None
    assert len(found.vector) == 3
    assert found.T.shape == (3, 1)
    assert link_table("5").scalar


def test_a_product_that_is_only_set_out_is_no_answer() -> None:
    link = read(r"$$Q = \begin{bmatrix}1\end{bmatrix}\begin{bmatrix}2\end{bmatrix}$$").statements[0].terms[0]
    assert is_uncomputed(link.term)
    assert table(link) is None


def test_shown_to_the_learners_digits() -> None:
    assert format_value(arb(1) / 3, entry("0.33")) == "0.33"
    assert format_value(arb(5), entry("4")) == "5"
    assert format_value(MASKED) == "-∞"


MATRIX = r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \\ 5 & 6 \end{bmatrix}"


@pytest.mark.parametrize(
    ("text", "shape", "at", "cells"),
    [
        (MATRIX, (3, 2), (), {(0, 0): "1", (0, 1): "2", (1, 0): "3", (1, 1): "4", (2, 0): "5", (2, 1): "6"}),
        (MATRIX, (2, 2), (), None),
        ("[1, 2]", (3, 2), (1,), {(1, 0): "1", (1, 1): "2"}),
        (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}", (3, 2), (2,), {(2, 0): "1", (2, 1): "2"}),
        ("[1, 2]", (3, 2), (3,), None),
        ("[1, 2, 3]", (3, 1), (), {(0, 0): "1", (1, 0): "2", (2, 0): "3"}),
        ("7", (3, 2), (0, 1), {(0, 1): "7"}),
        ("7", (3, 2), (2, None), {(2, 0): "7", (2, 1): "7"}),
        ("[7, 8]", (3, 2), (2, None), {(2, 0): "7", (2, 1): "8"}),
        ("7", (3, 2), (), None),
        ("7", (3, 2), (None, None), None),
        ("[7, 8]", (3, 2), None, {(0, 0): "7", (0, 1): "8"}),
    ],
)
def test_fit(text: str, shape: tuple[int, int], at: At | None, cells: dict[tuple[int, int], str] | None) -> None:
    found = fit(link_table(text), shape, at, by_rows=True)
    assert (None if found is None else {place: entry.text for place, entry in found.items()}) == cells


def test_a_token_is_a_column_in_column_layout() -> None:
    found = fit(link_table("[1, 2]"), (2, 3), (1,), by_rows=False)
    assert found is not None
    assert set(found) == {(0, 1), (1, 1)}


def test_transposed_documents() -> None:
    found = fit(link_table(MATRIX), (2, 3), (), by_rows=False, transposed=True)
    assert found is not None
    assert found[1, 0].text == "2"


def test_indices_as_they_may_be_meant() -> None:
    assert list(readings((1,), (), 2))[:2] == [(None, (1,)), (1, ())]
    assert next(iter(readings((1,), (2,), 2))) == (2, (1,))
    assert (None, (1, 2)) in list(readings((12,), (), 1))
    assert (2, (1, 1)) in list(readings((2, 1, 1), (), 2))
    assert (None, ()) in list(readings(("i",), (), 2))


def test_the_last_numbers_of_the_chain() -> None:
    found = answer_of(read(r"$$w_{1,2} = e^2/13.8256 = 0.5343$$").statements[0], 10)
    assert found is not None
    assert found.rows[0][0] is not None
    assert found.rows[0][0].text == "0.5343"


def test_a_matrix_with_an_open_cell_is_one() -> None:
    found = answer_of(read("Q: [[1, null], [2, 3]]", "a.yaml").statements[0], 10)
    assert found is not None
    assert found.rows[0][1] is None


def test_too_large_or_without_a_value() -> None:
    statement = read("Q: [[1, 2], [3, 4]]", "a.yaml").statements[0]
    assert answer_of(statement, 3) is None
    assert list(troubles(statement, 3)) == [(1, "no step of this exercise is 2×2")]
    assert list(troubles(read("Q: [[9**9**9]]", "a.yaml").statements[0], 9)) == [
        (1, "the power is too large to compute")
    ]


def test_inequalities_are_no_answers() -> None:
    assert answer_of(read(r"$$w_{1,2} > 0.5$$").statements[0], 10) is None


def test_numbers_carried_from_another_name_stand_on_their_entry_line() -> None:
    first, second = read("$a_1 = (1, 2)$\n\n$a_4 = a_1$").statements
    given = answer_of(first, 10)
    assert given is not None
    found = carried(second, {Name("a", (1,)): given})
    assert found is not None
    assert [(entry.text, entry.line) for _, _, entry in found.cells()] == [("1", 3), ("2", 3)]
    assert carried(second, {}) is None
