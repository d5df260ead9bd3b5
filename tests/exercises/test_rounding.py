from __future__ import annotations

import math
from decimal import Decimal

import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises import rounding
from glassformer.exercises.numbers import Exact


@given(st.fractions(max_denominator=10**6), st.integers(1, 20))
def test_significant_digits_of_rationals(value: object, digits: int) -> None:
    x = Exact(fmpq(value.numerator, value.denominator))  # type: ignore[attr-defined]
    written = Decimal(rounding.significant(x, digits))
    error = abs(fmpq(*written.as_integer_ratio()) - x.rational())
    if value:
        assert error <= fmpq(10) ** (rounding.magnitude(x) - digits + 1) / 2
    assert len(written.as_tuple().digits) <= max(digits, 22)


@pytest.mark.parametrize(
    ("x", "digits", "written"),
    [
        (Exact(fmpq(1, 3)), 17, "0.33333333333333333"),
        (Exact(fmpq(99996, 100)), 4, "1000"),
        (Exact(0), 5, "0"),
        (Exact(1000).exp(), 4, "1.97e+434"),
        (-Exact(-50).exp(), 3, "-1.93e-22"),
        (Exact(3).sqrt() * 100, 3, "173"),
        (Exact(1200), 6, "1200"),
    ],
)
def test_significant(x: Exact, digits: int, written: str) -> None:
    assert rounding.significant(x, digits) == written


def test_large_numbers_have_all_their_digits() -> None:
    assert (78 / Exact(3).sqrt()).exp().decimal(4) == "36117926567407142757.4390"
    assert Exact(1000).exp().decimal(3) == "1.97e+434"


def test_close_calls_are_decided_by_more_precision() -> None:
    """1 + e^-200 rounds up from a half that no double would see."""
    almost = Exact(fmpq(1, 2)) + Exact(-200).exp()
    assert almost.decimal(0) == "1"
    assert (Exact(fmpq(1, 2)) - Exact(-200).exp()).decimal(0) == "0"


def test_a_tie_beyond_closed_forms_goes_away_from_zero() -> None:
    half = (Exact(1).sin() ** 2 + Exact(1).cos() ** 2) / 2
    assert half.rational() is None
    assert half.decimal(0) == "1"
    assert (-half).decimal(0) == "-1"
    assert half.significant(3) == "0.5"


def test_floats_overflow_to_infinity() -> None:
    assert float(Exact(1000).exp()) == math.inf
    assert float(-(Exact(10) ** 400)) == -math.inf
    assert float(Exact(-2000).exp()) == 0.0
    assert float(Exact(10**9).exp()) == math.inf
    assert float(-Exact(-(10**9)).exp()) == 0.0
    assert Exact(10**9).exp().significant(5) == "8.003e+434294481"


def test_sign_of_nearly_equal_numbers() -> None:
    # 1/(√(10^20 + 1) + 10^10) = √(10^20 + 1) − 10^10, about 5e-11
    x = Exact(10**20 + 1).sqrt() - 10**10
    assert rounding.sign(x) == 1
    assert rounding.sign(-x) == -1
    assert rounding.sign(Exact(0)) == 0
