"""Prose: which head, which rows, counted from where."""

from __future__ import annotations

import pytest

from glassformer.exercises.grade.context import Context, counted_from_zero, heads_in, rows_in
from glassformer.exercises.reader import read


@pytest.mark.parametrize(
    ("words", "head"),
    [
        ("Now, for Head 2 :", 2), ("Output vectors of first attention need", 1), ("the second head", 2),
        ("head two", 2), ("Now, similarly to need 1 we have:", None), ("both heads", None), ("head 7", None),
    ],
)  # fmt: skip
def test_heads(words: str, head: int | None) -> None:
    assert heads_in(words, 2) == head


@pytest.mark.parametrize(
    ("words", "rows"),
    [("For row 1 and 4, we have", (1, 4)), ("For row 2:", (2,)), ("for token 3", (3,)), ("Token 1 attends", ())],
)
def test_rows(words: str, rows: tuple[int, ...]) -> None:
    assert rows_in(words) == rows


def test_rows_that_are_only_compared_with() -> None:
    assert rows_in("Row 4 is like row 1:") == (4,)
    assert rows_in("Same as row 1") == (1,)


def test_rows_end_where_the_outputs_begin() -> None:
    context = Context(1)
    for statement in read("For row 2: $[1, 2]$. If we sum them: $3$. Now the outputs: $[1, 3]$").statements:
        context.update(statement)
        rows = context.rows
    assert rows == ()


def test_an_index_0_says_how_a_name_is_counted() -> None:
    reading = read(r"$p_0 = 1$ and $q_1 = 2$. $$i = 0 \text{ scores to } j \rightarrow [1, 2]$$")
    assert counted_from_zero(reading.statements) == {"p", "i ="}
