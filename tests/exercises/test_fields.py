from __future__ import annotations

from fractions import Fraction

import pytest

from glassformer.errors import GlassError
from glassformer.exercises.fields import to_count, to_matrix, to_number, to_vector
from glassformer.exercises.numbers import Exact


@pytest.mark.parametrize("value", [0.5, "1/2", "0.50", Fraction(1, 2), Exact(1) / 2, "sqrt(1/4)"])
def test_numbers(value: object) -> None:
    assert to_number(value) == Exact(1) / 2


def test_decimals_are_exact() -> None:
    assert to_number(0.1) * 10 == 1
    assert to_number(1e-5) * 100_000 == 1


def test_vectors_take_rows_and_columns() -> None:
    for value in ([1, 2], [[1, 2]], [[1], [2]]):
        assert to_vector(value) == (Exact(1), Exact(2))


def test_counts() -> None:
    assert to_count("14") == 14
    assert to_count("224/16") == 14


@pytest.mark.parametrize(
    ("convert", "value", "says"),
    [
        (to_number, True, "number"),
        (to_number, None, "number"),
        (to_number, float("nan"), "nan"),
        (to_number, [1], "number"),
        (to_matrix, [1, 2], "rows"),
        (to_matrix, [], "matrix"),
        (to_matrix, [[]], "no entries"),
        (to_matrix, "abc", "matrix"),
        (to_matrix, [[1, 2], [3]], "row 2"),
        (to_matrix, [[0] * 65], "65 columns"),
        (to_matrix, [[0]] * 65, "65 rows"),
        (to_vector, [[1, 2], [3, 4]], "list of numbers"),
        (to_vector, [], "list of numbers"),
        (to_count, "1/2", "whole"),
        (to_count, 0, "whole"),
        (to_count, "sqrt(2)", "whole"),
    ],
)
def test_refusals(convert: object, value: object, says: str) -> None:
    with pytest.raises(GlassError, match=says):
        convert(value)  # type: ignore[operator]
