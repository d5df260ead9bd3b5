"""Which cells of a symbol's matrix a written number, list or matrix fills: whole, one token's line, one cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from glassformer.worked.check.own import Own, Table
from glassformer.worked.read.term import Index

Cells: TypeAlias = dict[tuple[int, int], Own]
Shape: TypeAlias = tuple[int, int]
At: TypeAlias = tuple[int | None, ...]  # counted from 0; None: every one


def fit(table: Table, shape: Shape, at: At | None, *, by_rows: bool, turned: bool = False) -> Cells | None:
    """The cells that the table fills if it stands at `at` in a matrix of `shape`; None if it does not fit.

    Without `at` the table's own rows and columns are the matrix's, as far as they go.
    """
    if at is None:
        cells = {(i, j): own for i, j, own in table.cells()}
        return cells if all(i < shape[0] and j < shape[1] for i, j in cells) else None
    if turned:
        table = table if table.scalar or 1 in table.shape else table.T
        at = at[::-1] if len(at) == 2 else at
    if len(at) == 0:
        return _whole(table, shape)
    if len(at) == 1:
        return _line(table, shape, at[0], by_rows)
    return _entry(table, shape, at) if len(at) == 2 else None


def _whole(table: Table, shape: Shape) -> Cells | None:
    if table.scalar:
        return {(i, j): own for i, j, own in table.cells()} if shape == (1, 1) else None
    if table.shape == shape:
        return {(i, j): own for i, j, own in table.cells()}
    vector = table.vector
    if vector is None or 1 not in shape or len(vector) != shape[0] * shape[1]:
        return None
    places = [(i, j) for i in range(shape[0]) for j in range(shape[1])]
    return {place: own for place, own in zip(places, vector, strict=True) if own is not None}


def _line(table: Table, shape: Shape, token: int | None, by_rows: bool) -> Cells | None:
    """A token's row, or column in column layout; written as row, column or list alike."""
    lines, width = shape if by_rows else shape[::-1]
    if token is None or not 0 <= token < lines:
        return None
    numbers = table.rows[0] if table.scalar else table.vector
    if numbers is None or len(numbers) != width:
        return None
    return {((token, k) if by_rows else (k, token)): own for k, own in enumerate(numbers) if own is not None}


def _entry(table: Table, shape: Shape, at: At) -> Cells | None:
    i, j = at
    if (i is None and j is None) or not all(k is None or 0 <= k < n for k, n in zip(at, shape, strict=True)):
        return None
    places = [
        (a, b) for a in (range(shape[0]) if i is None else (i,)) for b in (range(shape[1]) if j is None else (j,))
    ]
    numbers = table.rows[0] if table.scalar or table.shape == (1, 1) else table.vector
    if numbers is None or len(numbers) not in (1, len(places)) or (len(numbers) > 1 and len(places) == 1):
        return None
    spread = numbers * len(places) if len(numbers) == 1 else numbers  # w_{3,j} = 0.25 is every cell of row 3
    return {place: own for place, own in zip(places, spread, strict=True) if own is not None}


def readings(
    indices: Sequence[Index], upper: Sequence[Index], heads: int
) -> Iterator[tuple[int | None, tuple[Index, ...]]]:
    """(head, indices of cells) as `Q_1`, `q_1^{(2)}`, `w_{1,2}`, `w_{12}`, `w_{2,1,1}` may be meant."""
    head = next((i for i in upper if isinstance(i, int)), None)
    cells = tuple(indices)
    whole = all(isinstance(i, int) for i in indices)
    split = tuple(int(digit) for i in indices for digit in str(i)) if whole else cells
    shapes = list(dict.fromkeys([cells, split]))
    if head is not None:
        yield from ((head, each) for each in shapes)
        return
    for each in shapes:
        yield None, each
        if each and isinstance(each[0], int):
            yield each[0], each[1:]
        elif each and heads > 1:  # Q_i: whichever head the working is at
            yield None, each[1:]
        if len(each) > 1 and isinstance(each[-1], int):
            yield each[-1], each[:-1]
