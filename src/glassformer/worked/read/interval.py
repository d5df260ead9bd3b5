"""Balls: a written number as the interval of everything that rounds to it.

0.1967 is [0.19665, 0.19675]; trailing zeros count: 0.1050 is ±0.00005. Whole numbers and fractions are exact. A whole
number in a matrix that also holds decimals is one of them with its zeros left out: 8 beside 11.98 is 8.00.
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

    @property
    def T(self) -> Grid:
        return Grid(tuple(zip(*self.rows, strict=True)))

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
