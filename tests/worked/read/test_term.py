"""Written numbers keep their digits; trees are walked and asked what is in them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.read.term import (
    Blank,
    Call,
    Matrix,
    Name,
    Product,
    Struck,
    Sum,
    is_numeric,
    is_struck,
    names_in,
    walk,
    written,
)


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("0.1967", Fraction(1967, 10000), 4),
        ("0.1050", Fraction(105, 1000), 4),
        ("10", Fraction(10), None),
        (".5", Fraction(1, 2), 1),
        ("3.", Fraction(3), None),
        ("1.2e-3", Fraction(12, 10000), 4),
        ("1.2e3", Fraction(1200), -2),
        ("19.67%", Fraction(1967, 10000), 4),
        ("50%", Fraction(1, 2), None),
    ],
)
def test_written(text: str, value: Fraction, places: int | None) -> None:
    number = written(text)
    assert (number.text, number.value, number.places) == (text, value, places)
    assert number.unit == (0 if places is None else Fraction(10) ** -places)


@given(st.decimals(0, 10**6, allow_nan=False, places=4))
def test_written_is_the_decimal(number: Decimal) -> None:
    assert written(f"{number:f}").value == Fraction(number)


@pytest.mark.parametrize("text", ["9" * 100, "1e999999", "1e-500"])
def test_monsters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"digits|too large"):
        written(text)


def test_walk_and_what_is_inside() -> None:
    two, q = written("2"), Name("Q", (1,))
    term = Sum((Product((two, q)), Struck(Matrix(((two, two),)))))
    assert [type(part).__name__ for part in walk(term)] == [
        "Sum", "Product", "Written", "Name", "Struck", "Matrix", "Written", "Written",
    ]  # fmt: skip
    assert names_in(term) == (q,)
    assert is_struck(term)
    assert not is_struck(term.terms[0])
    assert not is_numeric(term)
    assert is_numeric(term.terms[1])
    assert not is_numeric(Matrix(((two, Blank()),)))
    assert not is_numeric(Call("sum", (two,), "j"))


def test_ragged_matrices_keep_their_rows() -> None:
    two = written("2")
    matrix = Matrix(((two, two, two), (two,)))
    assert matrix.ragged
    assert matrix.shape == (2, 3)
