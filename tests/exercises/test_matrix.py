from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ShapeError
from glassformer.exercises.matrix import Matrix, hstack, vstack
from glassformer.exercises.numbers import Exact


def matrices(n: int, m: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(-9, 9), min_size=m, max_size=m), min_size=n, max_size=n)


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_product_agrees_with_numpy(data: st.DataObject, n: int, k: int, m: int) -> None:
    a, b = data.draw(matrices(n, k)), data.draw(matrices(k, m))
    wanted = (np.array(a) @ np.array(b)).tolist()
    for scalar in (Exact, Fraction, float):
        product = Matrix.of(a).map(scalar) @ Matrix.of(b).map(scalar)
        assert product == Matrix.of(wanted).map(scalar)
    turned = Matrix.of(a).T
    assert [list(row) for row in turned] == np.array(a).T.tolist()


def test_stacking_and_stretching() -> None:
    a, b = Matrix.of([[1, 2], [3, 4]]), Matrix.of([[5], [6]])
    assert hstack([a, b]).rows == ((1, 2, 5), (3, 4, 6))
    assert vstack([a, b.T]).rows == ((1, 2), (3, 4), (5, 6))
    assert (a + b).rows == ((6, 7), (9, 10))
    assert (a - b.T).rows == ((-4, -4), (-2, -2))
    assert a.shape == (2, 2)
    assert a[1, 0] == 3
    assert list(b.cells()) == [(0, 0, 5), (1, 0, 6)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Matrix.of([]), "no entries"),
        (lambda: Matrix.of([[]]), "no entries"),
        (lambda: Matrix.of([[1, 2], [3]]), "row 2 of a matrix has 1 entries"),
        (lambda: Matrix.of([[1, 2]]) @ Matrix.of([[1, 2]]), "1×2 cannot be multiplied by one of 1×2.*needs 2 rows"),
        (lambda: Matrix.of([[1, 2]]) + Matrix.of([[1, 2, 3]]), "cannot be added"),
        (lambda: hstack([Matrix.of([[1]]), Matrix.of([[1], [2]])]), "side by side"),
        (lambda: vstack([Matrix.of([[1]]), Matrix.of([[1, 2]])]), "stacked"),
    ],
)
def test_misfits(make: object, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        make()  # type: ignore[operator]
