"""Written numbers as balls, and how close they come."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.check.own import Own, Table, closeness, is_uncomputed, shown, table
from glassformer.worked.numbers import MASKED
from glassformer.worked.read import read


def own(text: str) -> Own:
    found = link_table(text)
    return next(cell for _, _, cell in found.cells())


def link_table(text: str) -> Table:
    found = table(read(f"$$Q = {text}$$").statements[0].terms[-1])
    assert found is not None
    return found


@given(st.fractions(-100, 100, max_denominator=997), st.integers(1, 8))
def test_a_correctly_rounded_number_is_right_and_the_next_digit_is_not(value: Fraction, places: int) -> None:
    unit = Fraction(1, 10**places)
    nearest = round(value / unit) * unit
    exact = arb(fmpq(value.numerator, value.denominator))
    written = (
        f"{'-' if nearest < 0 else ''}{abs(nearest.numerator * (10**places // nearest.denominator)):0{places + 1}d}"
    )
    text = f"{written[:-places]}.{written[-places:]}"
    assert closeness(exact, own(text)) == "right"
    off = nearest + 2 * unit if value < nearest else nearest - 2 * unit
    digits = f"{'-' if off < 0 else ''}{abs(off.numerator * (10**places // off.denominator)):0{places + 1}d}"
    assert closeness(exact, own(f"{digits[:-places]}.{digits[-places:]}")) == "wrong"


@pytest.mark.parametrize(
    ("text", "verdict"), [("0.1967", "rounded"), ("0.1966", "right"), ("0.2", "right"), ("0.1968", "wrong")]
)
def test_last_digits(text: str, verdict: str) -> None:
    assert closeness(arb(1).exp() / arb("13.82562"), own(text)) == verdict


def test_exact_forms_are_compared_exactly() -> None:
    assert closeness(arb(2).exp() / 3, own(r"\frac{e^2}{3}")) == "right"
    assert closeness(arb(2).exp() / 3 + arb("1e-10"), own(r"\frac{e^2}{3}")) == "wrong"


def test_masked_is_minus_infinity_however_it_is_written() -> None:
    assert closeness(MASKED, own(r"-\infty")) == "right"
    assert closeness(MASKED, own("-10^9")) == "right"
    assert closeness(MASKED, own("0")) == "wrong"
    assert closeness(arb(3), own(r"-\infty")) == "wrong"


def test_nothing_is_right_about_a_value_that_is_not_finite() -> None:
    assert closeness(arb(1) / arb(0), own("3")) == "wrong"


def test_zeros_left_out_beside_decimals() -> None:
    found = link_table(r"\begin{bmatrix} 8 & 11.98 \end{bmatrix}")
    eight = found.rows[0][0]
    assert eight is not None
    assert eight.places == 2
    assert closeness(arb("8.004"), eight) == "right"
    assert closeness(arb("8.006"), eight) == "rounded"


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
    assert shown(arb(1) / 3, own("0.33")) == "0.33"
    assert shown(arb(5), own("4")) == "5"
    assert shown(MASKED) == "-∞"
