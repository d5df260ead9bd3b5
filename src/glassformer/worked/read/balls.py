"""Balls: a written number as the interval of everything that rounds to it.

0.1967 is [0.19665, 0.19675]; trailing zeros count: 0.1050 is ±0.00005. Whole numbers and fractions are exact. A whole
number in a matrix that also holds decimals of two or more places is one of them with its zeros left out: 8 beside
11.98 is 8.00.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from flint import arb, fmpq

Ball: TypeAlias = Any  # flint has no types: arb
BITS = 128


class Unevaluated(Exception):
    """A term that has no value here; says why in plain words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Mismatch(Unevaluated):
    """Sizes that do not fit together."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix of balls. `flat`: a list, which may stand for a row or a column."""

    rows: tuple[tuple[Ball, ...], ...]
    flat: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0]) if self.rows else 0

    def map(self, function: Callable[[Ball], Ball]) -> Grid:
        return Grid(tuple(tuple(function(cell) for cell in row) for row in self.rows), self.flat)


Value: TypeAlias = Ball | Grid


def rational(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))


def ball(value: Fraction, unit: Fraction, slack: Fraction) -> Ball:
    """value ± slack·unit."""
    radius = unit * slack
    if radius == 0:
        return rational(value)
    return arb(fmpq(value.numerator, value.denominator), fmpq(radius.numerator, radius.denominator))


def shape_text(value: Value) -> str:
    """2×3, or "a number"."""
    if not isinstance(value, Grid):
        return "a number"
    if value.flat:
        return f"a list of {value.shape[1]}"
    return "{}×{}".format(*value.shape)


def plain(value: Ball, places: int | None = None) -> str:
    """The middle of a ball as a decimal: to `places` digits after the point, or as many as are needed up to 6."""
    if value.is_nan():
        return "not a number"
    if not value.is_finite():
        return "∞" if value > 0 else "-∞"
    middle = value.mid().fmpq()
    number = Fraction(int(middle.p), int(middle.q))
    digits = 6 if places is None else max(places, 0)
    scaled = round(number * 10**digits)
    sign = "-" if scaled < 0 else ""
    whole, rest = divmod(abs(scaled), 10**digits)
    text = f"{sign}{whole}.{rest:0{digits}d}" if digits else f"{sign}{whole}"
    return text.rstrip("0").rstrip(".") if places is None and digits else text


MOST_PRODUCTS = 2_000_000
MOST_BITS = 20_000  # of a power: 2^±20000


def transpose(value: Value) -> Value:
    return Grid(tuple(zip(*value.rows, strict=True))) if isinstance(value, Grid) else value


def add(a: Value, b: Value) -> Value:
    if not isinstance(a, Grid) and not isinstance(b, Grid):
        return a + b
    if not isinstance(a, Grid) or not isinstance(b, Grid):
        raise Mismatch(f"{shape_text(a)} and {shape_text(b)} cannot be added")
    if a.shape != b.shape:
        a, b = _spread(a, b.shape), _spread(b, a.shape)
    if a.shape != b.shape:
        a, b = (transpose(a), b) if a.flat else (a, transpose(b)) if b.flat else (a, b)
    if a.shape != b.shape:
        raise Mismatch(f"{shape_text(a)} and {shape_text(b)} cannot be added")
    rows = zip(a.rows, b.rows, strict=True)
    return Grid(tuple(tuple(x + y for x, y in zip(r, s, strict=True)) for r, s in rows), a.flat and b.flat)


def _spread(value: Grid, shape: tuple[int, int]) -> Grid:
    """A bias: one row is added to every row, one column to every column."""
    if value.shape == (1, shape[1]) and shape[1] > 1:
        return Grid(value.rows * shape[0])
    if value.shape == (shape[0], 1) and shape[0] > 1:
        return Grid(tuple(row * shape[1] for row in value.rows))
    return value


def multiply(a: Value, b: Value) -> Value:
    """Numbers, a number and a matrix, two matrices; lists stand as row or column, whichever fits, and two are a dot."""
    if not isinstance(a, Grid):
        return b.map(lambda x: a * x) if isinstance(b, Grid) else a * b
    if not isinstance(b, Grid):
        return a.map(lambda x: x * b)
    if a.flat and b.flat:
        if a.shape != b.shape:
            raise Mismatch(f"{shape_text(a)} times {shape_text(b)}: the lengths differ")
        return _dot(a.rows[0], b.rows[0])
    left = transpose(a) if a.flat and a.shape[1] != b.shape[0] and b.shape[0] == 1 else a
    right = transpose(b) if b.flat and b.shape[0] != a.shape[1] else b
    if left.shape[1] != right.shape[0]:
        if (1, 1) in (a.shape, b.shape):  # [78] is a number
            return multiply(a.rows[0][0], b) if a.shape == (1, 1) else multiply(a, b.rows[0][0])
        m, k, l, n = *a.shape, *b.shape
        raise Mismatch(f"a {m}×{k} matrix cannot be multiplied by a {l}×{n} matrix: width {k} meets height {l}")
    if left.shape[0] * left.shape[1] * right.shape[1] > MOST_PRODUCTS:
        raise Unevaluated("the product of matrices is too large to compute")
    columns = list(zip(*right.rows, strict=True))
    return Grid(tuple(tuple(_dot(row, column) for column in columns) for row in left.rows), a.flat and left is a)


def _dot(row: tuple[Ball, ...], column: tuple[Ball, ...]) -> Ball:
    total = arb(0)
    for x, y in zip(row, column, strict=True):
        total += x * y
    return total


def divide(a: Value, b: Value) -> Value:
    if isinstance(b, Grid):
        if b.shape != (1, 1):
            raise Mismatch("nothing can be divided by a matrix")
        b = b.rows[0][0]
    if b.contains(0):
        raise Unevaluated("division by zero" if b.is_zero() else "the divisor may be zero")
    return a.map(lambda x: x / b) if isinstance(a, Grid) else a / b


def number(value: Value, what: str) -> Ball:
    """A value that has to be a single number."""
    if isinstance(value, Grid):
        if value.shape != (1, 1):
            raise Mismatch(f"{what} of a matrix")
        return value.rows[0][0]
    return value


def root(radicand: Value, degree: Value) -> Ball:
    x, n = number(radicand, "a root"), number(degree, "a root")
    if x < 0 or x.is_nan():
        raise Unevaluated("the root of a negative number")
    whole = arb(n).unique_fmpz()
    if whole is None or not 1 <= int(whole) <= 100:
        raise Unevaluated("a root whose degree is not a whole number up to 100")
    return x.nonnegative_part().sqrt() if whole == 2 else x.nonnegative_part().root(int(whole))


def exponential(x: Ball) -> Ball:
    if x.is_finite() and not x < MOST_BITS:
        raise Unevaluated("the exponential is too large to compute")
    return x.exp()


def power(base: Value, exponent: Value) -> Value:
    """x^y with |y·log₂x| at most 20000; a square matrix to a small whole power."""
    y = number(exponent, "a power")
    whole = y.unique_fmpz() if y.is_exact() and abs(y) < 10**6 else None
    if isinstance(base, Grid) and base.shape != (1, 1):
        if whole is None or not 1 <= int(whole) <= 8:
            raise Unevaluated("a power of a matrix that is not a small whole number")
        result: Value = base
        for _ in range(int(whole) - 1):
            result = multiply(result, base)
        return result
    x = number(base, "a power")
    if not x.is_finite() or not y.is_finite() or not abs(y) < 10**6:
        raise Unevaluated("the power is too large to compute")
    bits = (x.abs_upper() + 2).log() * abs(y) / arb(2).log()
    small = x.abs_lower()
    if not bits < MOST_BITS or (small > 0 and not abs(small.log() * y) < MOST_BITS):
        raise Unevaluated("the power is too large to compute")
    if whole is not None:
        if int(whole) < 0 and x.contains(0):
            raise Unevaluated("division by zero")
        return x**y
    if not x > 0:
        raise Unevaluated("a broken power of a number that is not positive")
    return x**y


def blocks(rows: list[list[Value]]) -> Grid:
    """Matrices set side by side and under each other."""
    bands: list[tuple[tuple[Ball, ...], ...]] = []
    for row in rows:
        parts = [cell.rows if isinstance(cell, Grid) else ((cell,),) for cell in row]
        if len({len(part) for part in parts}) > 1:
            raise Mismatch(f"matrices of {' and '.join(str(len(part)) for part in parts)} rows stand side by side")
        bands.append(tuple(tuple(x for part in line for x in part) for line in zip(*parts, strict=True)))
    if len({len(band[0]) for band in bands}) > 1:
        raise Mismatch("matrices of different widths stand under each other")
    return Grid(tuple(line for band in bands for line in band))
