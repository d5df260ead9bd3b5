"""Which cells a table fills."""

from __future__ import annotations

import pytest

from glassformer.worked.check.fit import At, fit, readings
from glassformer.worked.check.own import Table, table
from glassformer.worked.read import read


def made(text: str) -> Table:
    found = table(read(f"$$Q = {text}$$").statements[0].terms[-1])
    assert found is not None
    return found


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
    found = fit(made(text), shape, at, by_rows=True)
    assert (None if found is None else {place: own.text for place, own in found.items()}) == cells


def test_a_token_is_a_column_in_column_layout() -> None:
    found = fit(made("[1, 2]"), (2, 3), (1,), by_rows=False)
    assert found is not None
    assert set(found) == {(0, 1), (1, 1)}


def test_turned_documents() -> None:
    found = fit(made(MATRIX), (2, 3), (), by_rows=False, turned=True)
    assert found is not None
    assert found[1, 0].text == "2"


def test_indices_as_they_may_be_meant() -> None:
    assert list(readings((1,), (), 2))[:2] == [(None, (1,)), (1, ())]
    assert next(iter(readings((1,), (2,), 2))) == (2, (1,))
    assert (None, (1, 2)) in list(readings((12,), (), 1))
    assert (2, (1, 1)) in list(readings((2, 1, 1), (), 2))
    assert (None, ()) in list(readings(("i",), (), 2))
