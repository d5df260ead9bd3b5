"""Field types of an exercise file: exact numbers, vectors and matrices of them, and switches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from flint import fmpq
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, WithJsonSchema

from glassformer.errors import InputError, ShapeError
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.evaluation import evaluate_expression
from glassformer.exercises.expression import parse, shorten
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact

MAX_SIDE = 64  # maximum side of any matrix in an exercise

_NUMBER = {"type": ["number", "string"], "description": "an integer, a decimal, or an expression: 1/2, sqrt(3), e^2"}
_VECTOR = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": MAX_SIDE}
_MATRIX = {"type": "array", "items": _VECTOR, "minItems": 1, "maxItems": MAX_SIDE}


def to_number(value: object) -> Exact:
    """Convert a number as written; decimals are taken as exact."""
    if isinstance(value, Exact):
        return value
    if isinstance(value, bool) or value is None or not isinstance(value, int | float | str | Fraction):
        raise InputError(f"{shorten(str(value))!r} is not a number", "write a number such as 2 or 1/2")
    if isinstance(value, Fraction):
        return Exact(fmpq(value.numerator, value.denominator))
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} is not a number", "write a finite number")
    return _parsed(repr(value) if isinstance(value, float) else str(value))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Exact:
    """Parse a number; cached, because after an edit all numbers of an exercise but one are the same."""
    result: Exact = evaluate_expression(parse(text), EXACT)
    return result


def to_matrix(value: Any) -> Matrix[Exact]:
    if isinstance(value, Matrix):
        return value
    if not _is_list(value) or not value or not all(_is_list(row) for row in value):
        raise ShapeError(f"{shorten(str(value))} is not a matrix", "write a list of rows, such as [[1, 2], [3, 4]]")
    _limit(len(value), "rows")
    for row in value:
        _limit(len(row), "columns")
    return Matrix.of([to_number(cell) for cell in row] for row in value)


def to_vector(value: Any) -> tuple[Exact, ...]:
    """Convert a list of numbers; a matrix with one row or one column is accepted."""
    if _is_list(value) and value and all(_is_list(row) for row in value):
        rows = value
        value = rows[0] if len(rows) == 1 else [row[0] for row in rows] if all(len(row) == 1 for row in rows) else rows
    if not _is_list(value) or not value or any(_is_list(cell) for cell in value):
        raise ShapeError(f"{shorten(str(value))} is not a list of numbers", "write one such as [1, 0, 2]")
    _limit(len(value), "entries")
    return tuple(to_number(cell) for cell in value)


def to_count(value: object) -> int:
    q = to_number(value).rational()
    if q is None or q.q != 1 or q < 1:
        raise InputError(f"{shorten(str(value))!r} is not a positive whole number", "write one such as 4")
    return int(q.p)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _limit(count: int, what: str) -> None:
    if count > MAX_SIDE:
        raise ShapeError(f"a matrix has {count} {what}", f"the limit for exercises on paper is {MAX_SIDE}")


ExactNumber = Annotated[Exact, PlainValidator(to_number), WithJsonSchema(_NUMBER)]
ExactVector = Annotated[tuple[Exact, ...], PlainValidator(to_vector), WithJsonSchema(_VECTOR)]
ExactMatrix = Annotated[Matrix[Exact], PlainValidator(to_matrix), WithJsonSchema(_MATRIX)]
Count = Annotated[int, PlainValidator(to_count), WithJsonSchema({"type": "integer", "minimum": 1})]

# `layernorm: true` is a LayerNorm with default settings, `layernorm: none` disables it
switch = BeforeValidator(lambda value: {} if value is True else None if value is False or value == "none" else value)
nothing = BeforeValidator(lambda value: "none" if value is None or value is False else value)


class Strict(BaseModel):
    """Base model: frozen, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
