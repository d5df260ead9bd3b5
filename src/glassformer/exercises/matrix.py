"""Matrices over any scalar type: exact numbers, intervals or floats. Immutable, small, stored by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from glassformer.errors import ShapeError

Scalar = TypeVar("Scalar")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Matrix(Generic[Scalar]):
    """An immutable matrix rows[i][j] with rows of equal, nonzero length. `flat`: a list, either a row or a column."""

    rows: tuple[tuple[Scalar, ...], ...]
    flat: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.rows or not self.rows[0]:
            raise ShapeError("a matrix has no entries", "give it at least one row of at least one number")
        for index, row in enumerate(self.rows):
            if len(row) != len(self.rows[0]):
                raise ShapeError(
                    f"row {index + 1} of a matrix has {len(row)} entries, row 1 has {len(self.rows[0])}",
                    "give every row the same number of entries",
                )

    @classmethod
    def of(cls, rows: Iterable[Iterable[Scalar]]) -> Matrix[Scalar]:
        return cls(tuple(tuple(row) for row in rows))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def T(self) -> Matrix[Scalar]:
        return Matrix(tuple(zip(*self.rows, strict=True)))

    def __getitem__(self, at: tuple[int, int]) -> Scalar:
        return self.rows[at[0]][at[1]]

    def __iter__(self) -> Iterator[tuple[Scalar, ...]]:
        return iter(self.rows)

    def cells(self) -> Iterator[tuple[int, int, Scalar]]:
        """Yield (row, column, value) of every cell, counted from 0."""
        return ((i, j, value) for i, row in enumerate(self.rows) for j, value in enumerate(row))

    def map(self, function: Callable[[Scalar], Other]) -> Matrix[Other]:
        return Matrix(tuple(tuple(function(value) for value in row) for row in self.rows), self.flat)

    def zip(self, other: Matrix[Any], function: Callable[[Scalar, Any], Other], what: str = "joined") -> Matrix[Other]:
        """Combine two matrices cell by cell; a single row or column of `other` is broadcast."""
        wide = other.stretched(self.shape)
        if wide is None:
            raise ShapeError(
                f"matrices of {size(self)} and {size(other)} cannot be {what}",
                "give both the same number of rows and of columns",
            )
        pairs = zip(self.rows, wide.rows, strict=True)
        return Matrix(tuple(tuple(function(a, b) for a, b in zip(x, y, strict=True)) for x, y in pairs))

    def stretched(self, shape: tuple[int, int]) -> Matrix[Scalar] | None:
        """Return a single row or column repeated to the shape; None if it does not fit."""
        (n, m), (rows, columns) = self.shape, shape
        if n not in (1, rows) or m not in (1, columns):
            return None
        wide = self.rows if m == columns else tuple(row * columns for row in self.rows)
        return Matrix(wide if n == rows else wide * rows)

    def __add__(self, other: Matrix[Any]) -> Matrix[Any]:
        return self.zip(other, lambda a, b: a + b, "added")

    def __sub__(self, other: Matrix[Any]) -> Matrix[Any]:
        return self.zip(other, lambda a, b: a - b, "subtracted")

    def __matmul__(self, other: Matrix[Any]) -> Matrix[Any]:
        if self.shape[1] != other.shape[0]:
            raise ShapeError(
                f"a matrix of {size(self)} cannot be multiplied by one of {size(other)}",
                f"the second needs {self.shape[1]} rows",
            )
        own = getattr(self.rows[0][0], "matmul", None)
        product = own(self.rows, other.rows) if own is not None else None
        if product is not None:
            return Matrix(product)
        columns = other.T.rows
        return Matrix(tuple(tuple(dot(row, column) for column in columns) for row in self.rows))


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """Σ x·y, using the scalar type's own sum of products if it has one."""
    own = getattr(xs[0], "dot", None)
    if own is not None:
        return own(xs, ys)
    total = xs[0] * ys[0]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        total = total + x * y
    return total


def hstack(parts: Sequence[Matrix[Scalar]]) -> Matrix[Scalar]:
    """Concatenate matrices side by side."""
    if len({part.shape[0] for part in parts}) != 1:
        sizes = ", ".join(size(part) for part in parts)
        raise ShapeError(
            f"matrices of {sizes} cannot be concatenated side by side", "give them the same number of rows"
        )
    return Matrix(tuple(sum(rows, ()) for rows in zip(*parts, strict=True)))


def vstack(parts: Sequence[Matrix[Scalar]]) -> Matrix[Scalar]:
    """Stack matrices on top of each other."""
    if len({part.shape[1] for part in parts}) != 1:
        sizes = ", ".join(size(part) for part in parts)
        raise ShapeError(f"matrices of {sizes} cannot be stacked", "give them the same number of columns")
    return Matrix(sum((part.rows for part in parts), ()))


def size(matrix: Matrix[Any]) -> str:
    return f"{matrix.shape[0]}×{matrix.shape[1]}"
