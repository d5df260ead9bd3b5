"""The arithmetics an exercise can be evaluated in: exact numbers, intervals of any precision, and floats.

Their numbers implement + - * /; an arithmetic adds constants and functions. Masked scores are `MASKED` in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any, TypeAlias

from flint import arb, ctx, fmpq

from glassformer.errors import InputError
from glassformer.exercises.expression import Number
from glassformer.exercises.numbers import MASKED, Exact, Masked

Interval: TypeAlias = Any  # flint has no types: arb, a ball [m ± r]
HALF = Fraction(1, 2)
MAX_POWER = 64  # largest exponent in exact arithmetic: keeps 9^9^9 from running forever
MAX_BITS = 20_000  # limit on a power of written numbers: 2^±20000
MAX_EXP = 10**6  # largest exponent of e in intervals


class Unevaluated(InputError):
    """An expression that cannot be evaluated here; `reason` explains why."""

    def __init__(self, reason: str, remedy: str = "write it so that it has a value") -> None:
        super().__init__(reason, remedy)

    @property
    def reason(self) -> str:
        return self.fact


class Mismatch(Unevaluated):
    """Raised when sizes do not match."""


class Arithmetic:
    """Interface of all arithmetics; `tight` ones compute weights from scores without intermediate exponentials."""

    name: str
    tight: bool

    def precision(self) -> AbstractContextManager[Any]:
        """Return a context manager to enter around work in this arithmetic."""
        return nullcontext()

    def lift(self, x: Exact) -> Any:
        raise NotImplementedError

    def rational(self, numerator: int, denominator: int = 1) -> Any:
        raise NotImplementedError

    def number(self, written: Number) -> Any:
        return self.rational(written.value.numerator, written.value.denominator)

    def constant(self, symbol: str) -> Any:
        if symbol == "e":
            return self.exp(self.rational(1))
        raise Unevaluated(f"{symbol} has no value in {self.name} arithmetic")

    def settle(self, x: Any) -> Any:
        """Return a result in the form that later steps use."""
        return x

    def divide(self, x: Any, y: Any) -> Any:
        try:
            return x / y
        except ZeroDivisionError:
            raise Unevaluated("an expression divides by zero", "write a denominator that is not 0") from None

    def sqrt(self, x: Any) -> Any:
        return x.sqrt()

    def root(self, x: Any, degree: int) -> Any:
        return x.root(degree)

    def exp(self, x: Any) -> Any:
        return x.exp()

    def sin(self, x: Any) -> Any:
        return x.sin()

    def cos(self, x: Any) -> Any:
        return x.cos()

    def power(self, x: Any, numerator: int, denominator: int = 1) -> Any:
        return (x if denominator == 1 else self.root(x, denominator)) ** numerator

    def raised(self, x: Any, y: Any, exponent: Fraction | None) -> Any:
        """x^y; `exponent` is y as a fraction if it is a plain number."""
        if exponent is None:
            raise Unevaluated("an exponent is not a plain number", "write exponents such as 2, -1 or 1/2")
        p, q = exponent.numerator, exponent.denominator
        if abs(p) > MAX_POWER or q > 12:
            raise Unevaluated(f"the exponent {str(exponent)[:20]} is too large", "use a small one")
        return self.power(x, p, q)

    def absolute(self, x: Any) -> Any:
        return abs(x)

    def maximum(self, x: Any, y: Any) -> Any:
        return max(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return min(x, y)

    def softargmax(self, scores: Sequence[Any]) -> list[Any]:
        """a_i = 1 / (1 + Σ_{j≠i} exp(s_j − s_i)): never overflows; 0 where masked."""
        one, zero = self.rational(1), self.rational(0)

        def weight(i: int, x: Any) -> Any:
            total = one
            for j, y in enumerate(scores):
                if j != i and y is not MASKED:
                    total = total + self.exp(y - x)
            return one / total

        return [zero if x is MASKED else weight(i, x) for i, x in enumerate(scores)]


class ExactArithmetic(Arithmetic):
    """Exact arithmetic: numbers stay symbolic."""

    name = "exact"
    tight = False  # exponentials and their sums are shown as written

    def lift(self, x: Exact) -> Exact:
        return x

    def rational(self, numerator: int, denominator: int = 1) -> Exact:
        return Exact(fmpq(numerator, denominator))

    def settle(self, x: Exact | Masked) -> Exact | Masked:
        return x if isinstance(x, Masked) else x.folded()


class IntervalArithmetic(Arithmetic):
    """Interval arithmetic: every number is [m ± r], and results enclose all values the inputs allow.

    Work inside `precision()`.

    `slack` is how far a written decimal may be from the intended value, in units of its last digit: ½ means correct
    rounding, 0 exact. Exponentials above e^`largest` are rejected.
    """

    name = "interval"
    tight = True  # softargmax without computing an exponential twice, which would widen the interval

    def __init__(self, bits: int = 128, slack: Fraction = Fraction(0), largest: int = MAX_EXP) -> None:
        self.bits, self.slack, self.largest = bits, slack, largest

    def precision(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = ctx.workprec(self.bits)
        return context

    def lift(self, x: Exact) -> Interval:
        return x.ball_at(self.bits)

    def rational(self, numerator: int, denominator: int = 1) -> Interval:
        return arb(fmpq(numerator, denominator))

    def number(self, written: Number) -> Interval:
        return interval(written.value, written.unit * self.slack)

    def constant(self, symbol: str) -> Interval:
        return {"e": arb.const_e, "π": arb.pi, "∞": arb.pos_inf}[symbol]()

    def divide(self, x: Interval, y: Interval) -> Interval:
        if y.contains(0):
            raise Unevaluated("division by zero" if y.is_zero() else "the divisor may be zero")
        return x / y

    def sqrt(self, x: Interval) -> Interval:
        return self.root(x, 2)

    def root(self, x: Interval, degree: int) -> Interval:
        if x < 0 or x.is_nan():
            raise Unevaluated("the root of a negative number")
        return x.nonnegative_part().sqrt() if degree == 2 else x.nonnegative_part().root(degree)

    def exp(self, x: Interval) -> Interval:
        if x.is_finite() and not x < self.largest:
            raise Unevaluated("the exponential is too large to compute", "use smaller numbers or a scale")
        if x.is_finite() and x < -self.largest:
            return arb(0).union(arb(-self.largest).exp())
        return x.exp()

    def raised(self, x: Interval, y: Interval, exponent: Fraction | None) -> Interval:
        """x^y, with |y·log₂x| at most 20000."""
        whole = y.unique_fmpz() if y.is_exact() and abs(y) < 10**6 else None
        if not x.is_finite() or not y.is_finite() or not abs(y) < 10**6:
            raise Unevaluated("the power is too large to compute")
        bits = (x.abs_upper() + 2).log() * abs(y) / arb(2).log()
        small = x.abs_lower()
        if not bits < MAX_BITS or (small > 0 and not abs(small.log() * y) < MAX_BITS):
            raise Unevaluated("the power is too large to compute")
        if whole is not None and int(whole) < 0 and x.contains(0):
            raise Unevaluated("division by zero")
        if whole is None and not x > 0:
            raise Unevaluated("a fractional power of a number that is not positive")
        return x**y

    def log(self, x: Interval) -> Interval:
        if not x > 0:
            raise Unevaluated("the logarithm of a number that is not positive")
        return x.log()

    def tan(self, x: Interval) -> Interval:
        return x.tan()

    def tanh(self, x: Interval) -> Interval:
        return x.tanh()

    def erf(self, x: Interval) -> Interval:
        return x.erf()

    def maximum(self, x: Interval, y: Interval) -> Interval:
        return x.max(y)

    def minimum(self, x: Interval, y: Interval) -> Interval:
        return x.min(y)

    def softargmax(self, scores: Sequence[Any]) -> list[Interval]:
        """Use monotonicity: a_i increases with s_i and decreases with every other s_j, so endpoints of S bound A."""
        spread = [arb.neg_inf() if score is MASKED else score for score in scores]
        if all(not score.is_finite() and score < 0 for score in spread):
            raise Unevaluated("the softargmax of scores that are all −∞")
        low = [score.lower() if score.is_finite() else score for score in spread]
        high = [score.upper() if score.is_finite() else score for score in spread]
        return [self._weight(i, low[i], high).union(self._weight(i, high[i], low)) for i in range(len(spread))]

    def _weight(self, i: int, own: Interval, others: list[Interval]) -> Interval:
        if not own.is_finite():
            return arb(0)
        total = arb(1)
        for j, other in enumerate(others):
            if j != i:
                difference = other - own
                if difference > MAX_BITS:
                    return arb(0).union(arb(-MAX_BITS).exp())
                total += self.exp(difference)
        return 1 / total


class FloatArithmetic(Arithmetic):
    """float64 arithmetic, for quick checks and random trials."""

    name = "float"
    tight = True

    def lift(self, x: Exact) -> float:
        return float(x)

    def rational(self, numerator: int, denominator: int = 1) -> float:
        return numerator / denominator

    def sqrt(self, x: float) -> float:
        return self.root(x, 2)

    def root(self, x: float, degree: int) -> float:
        if x < 0:
            raise Unevaluated("the root of a negative number")
        return math.sqrt(x) if degree == 2 else float(x ** (1 / degree))

    def exp(self, x: float) -> float:
        return math.exp(x) if x < 709 else math.inf

    def sin(self, x: float) -> float:
        return math.sin(x)

    def cos(self, x: float) -> float:
        return math.cos(x)

    def power(self, x: float, numerator: int, denominator: int = 1) -> float:
        return float(x ** (numerator / denominator))


def interval(value: Fraction, radius: Fraction = Fraction(0)) -> Interval:
    """Return the interval value ± radius."""
    middle = fmpq(value.numerator, value.denominator)
    return arb(middle, fmpq(radius.numerator, radius.denominator)) if radius else arb(middle)


def midpoint(value: Interval, places: int | None = None) -> str:
    """Return an interval's midpoint as a decimal, with `places` digits after the point or as needed, up to 6."""
    if value.is_nan():
        return "not a number"
    if not value.is_finite():
        return "∞" if value > 0 else "-∞"
    middle = value.mid().fmpq()
    middle_value = Fraction(int(middle.p), int(middle.q))
    digits = 6 if places is None else max(places, 0)
    scaled = round(middle_value * 10**digits)
    sign = "-" if scaled < 0 else ""
    whole, rest = divmod(abs(scaled), 10**digits)
    text = f"{sign}{whole}.{rest:0{digits}d}" if digits else f"{sign}{whole}"
    return text.rstrip("0").rstrip(".") if places is None and digits else text


EXACT = ExactArithmetic()
INTERVALS = IntervalArithmetic()
FLOATS = FloatArithmetic()
