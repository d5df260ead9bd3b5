"""The arithmetics an exercise can be worked in: exact numbers, balls (intervals) of any precision, floats.

Their numbers bring + - * / with them; an arithmetic adds constants and functions. Masked scores are `MASKED` in all.
"""

from __future__ import annotations

import math
from typing import Any

from flint import arb, ctx, fmpq

from glassformer.worked.numbers import Exact


class ExactArithmetic:
    """Numbers stay symbolic."""

    name = "exact"
    tight = False  # shows exponentials and their sums as they are written

    def lift(self, x: Exact) -> Exact:
        return x

    def rational(self, numerator: int, denominator: int = 1) -> Exact:
        return Exact(fmpq(numerator, denominator))

    def sqrt(self, x: Exact) -> Exact:
        return x.sqrt()

    def exp(self, x: Exact) -> Exact:
        return x.exp()

    def sin(self, x: Exact) -> Exact:
        return x.sin()

    def cos(self, x: Exact) -> Exact:
        return x.cos()

    def power(self, x: Exact, numerator: int, denominator: int = 1) -> Exact:
        return (x if denominator == 1 else x.root(denominator)) ** numerator

    def absolute(self, x: Exact) -> Exact:
        return abs(x)

    def maximum(self, x: Exact, y: Exact) -> Exact:
        return x if x >= y else y

    def minimum(self, x: Exact, y: Exact) -> Exact:
        return x if x <= y else y


class BallArithmetic:
    """Every number is an enclosure [m ± r]; results enclose all that the inputs allow. Work inside `precision()`."""

    name = "balls"
    tight = True  # softargmax without computing an exponential twice, which would widen it

    def __init__(self, bits: int = 128) -> None:
        self.bits = bits

    def precision(self) -> Any:
        return ctx.workprec(self.bits)

    def lift(self, x: Exact) -> arb:
        return x.ball_at(self.bits)

    def rational(self, numerator: int, denominator: int = 1) -> arb:
        return arb(fmpq(numerator, denominator))

    def sqrt(self, x: arb) -> arb:
        return x.sqrt()

    def exp(self, x: arb) -> arb:
        return x.exp()

    def sin(self, x: arb) -> arb:
        return x.sin()

    def cos(self, x: arb) -> arb:
        return x.cos()

    def power(self, x: arb, numerator: int, denominator: int = 1) -> arb:
        return (x if denominator == 1 else x.root(denominator)) ** numerator

    def absolute(self, x: arb) -> arb:
        return abs(x)

    def maximum(self, x: arb, y: arb) -> arb:
        return x.max(y)

    def minimum(self, x: arb, y: arb) -> arb:
        return x.min(y)


class FloatArithmetic:
    """float64, for quick looks and random trials."""

    name = "floats"
    tight = True

    def lift(self, x: Exact) -> float:
        return float(x)

    def rational(self, numerator: int, denominator: int = 1) -> float:
        return numerator / denominator

    def sqrt(self, x: float) -> float:
        return math.sqrt(x)

    def exp(self, x: float) -> float:
        return math.exp(x) if x < 709 else math.inf

    def sin(self, x: float) -> float:
        return math.sin(x)

    def cos(self, x: float) -> float:
        return math.cos(x)

    def power(self, x: float, numerator: int, denominator: int = 1) -> float:
        return float(x ** (numerator / denominator))

    def absolute(self, x: float) -> float:
        return abs(x)

    def maximum(self, x: float, y: float) -> float:
        return max(x, y)

    def minimum(self, x: float, y: float) -> float:
        return min(x, y)


Arithmetic = ExactArithmetic | BallArithmetic | FloatArithmetic

EXACT = ExactArithmetic()
BALLS = BallArithmetic()
FLOATS = FloatArithmetic()
