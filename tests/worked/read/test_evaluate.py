"""Values of terms: intervals of written numbers, names looked up, blocks, and bounded work."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from flint import arb

from glassformer.worked.read.balls import Grid, Mismatch, Unevaluated, Value
from glassformer.worked.read.chain import formula
from glassformer.worked.read.evaluate import evaluate, exactly
from glassformer.worked.read.term import Name


def value_of(source: str, **options: object) -> Value:
    return evaluate(formula(source).drafts[0].terms[0].term, **options)  # type: ignore[arg-type]


def ends(value: arb) -> tuple[float, float]:
    return float(value.lower()), float(value.upper())


def test_a_decimal_is_its_rounding_interval() -> None:
    assert ends(value_of("0.1967")) == pytest.approx((0.19665, 0.19675), abs=1e-9)
    assert ends(value_of("0.1050")) == pytest.approx((0.10495, 0.10505), abs=1e-9)
    assert ends(value_of("10")) == (10, 10)
    assert ends(value_of("0.1967", slack=Fraction(0))) == pytest.approx((0.1967, 0.1967), abs=1e-15)
    assert ends(value_of(r"19.67\%")) == pytest.approx((0.19665, 0.19675), abs=1e-9)


def test_whole_numbers_beside_decimals_have_lost_their_zeros() -> None:
    row = value_of(r"\begin{bmatrix} 11.98 & 8 \end{bmatrix}").rows[0]
    assert ends(row[1]) == pytest.approx((7.995, 8.005), abs=1e-9)
    row = value_of(r"\begin{bmatrix} 0.5 & 8 \end{bmatrix}").rows[0]  # ½ is no sign of rounding
    assert ends(row[1]) == (8, 8)


def test_names_are_looked_up() -> None:
    values = {Name("q", (1,)): Grid(((exactly(1), exactly(2)),)), Name("d", ("k",)): exactly(4)}
    assert value_of(r"q_1 q_1^\top / \sqrt{d_k}", lookup=values.get).rows[0][0].contains(arb("2.5"))
    with pytest.raises(Unevaluated, match="q_2 is not a number"):
        value_of("q_2", lookup=values.get)


def test_blocks_and_transposes() -> None:
    value = value_of(r"\begin{bmatrix} [[1], [2]] & [[3, 4], [5, 6]] \end{bmatrix}^T")
    assert [[float(x) for x in row] for row in value.rows] == [[1, 2], [3, 5], [4, 6]]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("9^{9^9}", "too large"),
        ("9^{9^{9^{9}}}", "too large"),
        ("9**9**9**9", "too large"),
        ("e^{e^{e^{e^{e}}}}", "too large"),
        (r"\exp(10^9)", "too large"),
        (r"1/0", "division by zero"),
        (r"\frac{1}{1 - 1}", "division by zero"),
        (r"\sqrt{-1}", "negative"),
        (r"\infty - \infty", "has no value"),
        (r"\sum_j x_j", "runs over"),
        (r"\begin{bmatrix} 1 & \\ 2 & 3 \end{bmatrix}", "empty"),
        ("100!!", "factorial"),
    ],
)
def test_what_has_no_value_says_why_at_once(source: str, reason: str) -> None:
    start = time.perf_counter()
    with pytest.raises(Unevaluated, match=reason):
        value_of(source)
    assert time.perf_counter() - start < 1


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(Mismatch, match="width 2 meets height 3"):
        value_of(r"\begin{bmatrix} 1 & 2 \end{bmatrix} \begin{bmatrix} 1 \\ 2 \\ 3 \end{bmatrix}")
    with pytest.raises(Mismatch, match="differ in length"):
        value_of(r"\begin{bmatrix} 1 & 2 \\ 3 \end{bmatrix}")
