"""Balls hold what they should, and nothing runs for long."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.read import balls
from glassformer.worked.read.balls import Grid, Mismatch, Unevaluated, ball, plain, rational, shape_text


def grid(rows: list[list[int]], *, flat: bool = False) -> Grid:
    return Grid(tuple(tuple(arb(x) for x in row) for row in rows), flat)


def numbers(value: Grid) -> list[list[int]]:
    return [[int(x.unique_fmpz()) for x in row] for row in value.rows]


@given(st.fractions(-100, 100), st.integers(0, 6))
def test_a_ball_holds_what_rounds_to_it(value: Fraction, places: int) -> None:
    unit = Fraction(1, 10**places)
    rounded = round(value / unit) * unit
    with ctx.workprec(128):
        assert ball(rounded, unit, Fraction(1, 2)).contains(rational(value)) or abs(value - rounded) == unit / 2
        outside = rounded + unit * Fraction(51, 100)
        assert not ball(rounded, unit, Fraction(1, 2)).overlaps(rational(outside))


sizes = st.integers(1, 4)


@given(sizes, sizes, sizes, st.randoms(use_true_random=False))
def test_products_are_numpys(m: int, k: int, n: int, random) -> None:  # type: ignore[no-untyped-def]
    a = [[random.randint(-9, 9) for _ in range(k)] for _ in range(m)]
    b = [[random.randint(-9, 9) for _ in range(n)] for _ in range(k)]
    product = balls.multiply(grid(a), grid(b))
    assert numbers(product) == (np.array(a) @ np.array(b)).tolist()  # type: ignore[arg-type]


def test_lists_stand_as_they_fit() -> None:
    row = grid([[1, 2]], flat=True)
    assert balls.multiply(row, grid([[3, 4]], flat=True)) == 11
    assert numbers(balls.multiply(row, grid([[1, 0, 1], [0, 1, 1]]))) == [[1, 2, 3]]  # type: ignore[arg-type]
    assert numbers(balls.multiply(grid([[1, 0], [0, 2]]), row)) == [[1], [4]]  # type: ignore[arg-type]
    assert numbers(balls.add(row, grid([[3], [4]]))) == [[4], [6]]  # type: ignore[arg-type]


def test_what_does_not_fit_says_so() -> None:
    with pytest.raises(Mismatch, match="2×3 matrix cannot be multiplied by a 2×2 matrix: width 3 meets height 2"):
        balls.multiply(grid([[1, 2, 3], [1, 2, 3]]), grid([[1, 2], [3, 4]]))
    with pytest.raises(Mismatch, match="cannot be added"):
        balls.add(grid([[1, 2]]), grid([[1, 2, 3]]))
    with pytest.raises(Mismatch, match="cannot be added"):
        balls.add(grid([[1, 2], [3, 4]]), grid([[1, 2, 3], [4, 5, 6]]))
    with pytest.raises(Mismatch, match="divided by a matrix"):
        balls.divide(arb(1), grid([[1, 2]]))
    with pytest.raises(Mismatch, match="2 and 1 rows"):
        balls.blocks([[grid([[1], [2]]), grid([[1]])]])


def test_a_bias_is_added_to_every_row_or_column() -> None:
    assert numbers(balls.add(grid([[1, 2], [3, 4]]), grid([[10, 20]]))) == [[11, 22], [13, 24]]  # type: ignore[arg-type]
    assert numbers(balls.add(grid([[10], [20]]), grid([[1, 2], [3, 4]]))) == [[11, 12], [23, 24]]  # type: ignore[arg-type]


def test_blocks() -> None:
    assert numbers(balls.blocks([[grid([[1], [2]]), grid([[3, 4], [5, 6]])]])) == [[1, 3, 4], [2, 5, 6]]


@pytest.mark.parametrize(
    ("base", "exponent"), [(9, 9**9), (9, -(9**9)), (2, 10**5), (0, -1), (-2, Fraction(1, 2)), (10**300, 1000)]
)
def test_powers_that_are_refused(base: int, exponent: Fraction | int) -> None:
    with pytest.raises(Unevaluated):
        balls.power(arb(base), rational(Fraction(exponent)))


def test_powers_and_roots() -> None:
    assert balls.power(arb(2), arb(10)) == 1024
    assert numbers(balls.power(grid([[1, 1], [0, 1]]), arb(3))) == [[1, 3], [0, 1]]  # type: ignore[arg-type]
    assert abs(balls.root(arb(27), arb(3)) - 3) < 1e-12
    with pytest.raises(Unevaluated, match="negative"):
        balls.root(arb(-1), arb(2))


def test_division_by_what_may_be_zero() -> None:
    with pytest.raises(Unevaluated, match="division by zero"):
        balls.divide(arb(1), arb(0))
    with pytest.raises(Unevaluated, match="may be zero"):
        balls.divide(arb(1), arb(0, 1))


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [(arb(14), None, "14"), (arb(1) / 3, 4, "0.3333"), (arb("-0.5"), None, "-0.5"), (arb(0), 2, "0.00"),
     (arb.neg_inf(), None, "-∞"), (arb.nan(), None, "not a number"), (arb("2.5"), 0, "2")],
)  # fmt: skip
def test_plain(value: arb, places: int | None, text: str) -> None:
    assert plain(value, places) == text


def test_shape_text() -> None:
    assert shape_text(arb(1)) == "a number"
    assert shape_text(grid([[1, 2]], flat=True)) == "a list of 2"
    assert shape_text(grid([[1, 2]])) == "1×2"
