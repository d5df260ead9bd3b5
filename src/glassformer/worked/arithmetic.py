"""The arithmetics an exercise can be worked in: exact numbers, balls (intervals) of any precision, floats.

Their numbers bring + - * / with them; an arithmetic adds constants and functions. Masked scores are `MASKED` in all.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from flint import arb, ctx, fmpq

from glassformer.worked.numbers import Exact, Masked


class Arithmetic:
    """What every arithmetic offers; `tight` ones compute weights from scores without the exponentials between."""

    name: str
    tight: bool

    def precision(self) -> AbstractContextManager[Any]:
        """To be entered around work in this arithmetic."""
        return nullcontext()

    def lift(self, x: Exact) -> Any:
        raise NotImplementedError

    def rational(self, numerator: int, denominator: int = 1) -> Any:
        raise NotImplementedError

    def settle(self, x: Any) -> Any:
        """A result as later steps see it."""
        return x

    def sqrt(self, x: Any) -> Any:
        return x.sqrt()

    def exp(self, x: Any) -> Any:
        return x.exp()

    def sin(self, x: Any) -> Any:
        return x.sin()

    def cos(self, x: Any) -> Any:
        return x.cos()

    def power(self, x: Any, numerator: int, denominator: int = 1) -> Any:
        return (x if denominator == 1 else x.root(denominator)) ** numerator

    def absolute(self, x: Any) -> Any:
        return abs(x)

    def maximum(self, x: Any, y: Any) -> Any:
        return max(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return min(x, y)


class ExactArithmetic(Arithmetic):
    """Numbers stay symbolic."""

    name = "exact"
    tight = False  # shows exponentials and their sums as they are written

    def lift(self, x: Exact) -> Exact:
        return x

    def rational(self, numerator: int, denominator: int = 1) -> Exact:
        return Exact(fmpq(numerator, denominator))

    def settle(self, x: Exact | Masked) -> Exact | Masked:
        return x if isinstance(x, Masked) else x.folded()


class BallArithmetic(Arithmetic):
    """Every number is an enclosure [m ± r]; results enclose all that the inputs allow. Work inside `precision()`."""

    name = "balls"
    tight = True  # softargmax without computing an exponential twice, which would widen it

    def __init__(self, bits: int = 128) -> None:
        self.bits = bits

    def precision(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = ctx.workprec(self.bits)
        return context

    def lift(self, x: Exact) -> arb:
        return x.ball_at(self.bits)

    def rational(self, numerator: int, denominator: int = 1) -> arb:
        return arb(fmpq(numerator, denominator))

    def maximum(self, x: arb, y: arb) -> arb:
        return x.max(y)

    def minimum(self, x: arb, y: arb) -> arb:
        return x.min(y)


class FloatArithmetic(Arithmetic):
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


EXACT = ExactArithmetic()
BALLS = BallArithmetic()
FLOATS = FloatArithmetic()
