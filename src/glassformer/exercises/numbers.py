"""Exact numbers: rationals, roots, exponentials, their sums and quotients, and factors known only by an interval.

`Exact` is Σ c·√n·e^s·Π b^p in the canonical form of `ring`, so √12 = 2√3 and 1/√3 = √3/3 are equal as dictionaries, and
e^s/Σ e^s keeps its denominator readable. Equality of roots, exponentials and their quotients is decided; where sines or
roots of exponentials occur, numbers that agree to 4,900 digits are considered equal. Every number can enclose itself in
an interval of any precision, and its decimals are correctly rounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from flint import arb, ctx, fmpq, fmpq_mat

from glassformer.errors import InputError
from glassformer.exercises import closed_form, ring, rounding
from glassformer.exercises.expression import Constant, Expression, Negative
from glassformer.exercises.printers.text import ascii_code
from glassformer.exercises.ring import Base, Terms

Rows: TypeAlias = "tuple[tuple[Exact, ...], ...]"
MAX_EXPONENT = 10**9
READABLE = 60  # longest exact form, in characters, that is still readable


class Exact:
    """An immutable exact number."""

    __slots__ = ("_ball", "_hash", "terms")

    def __init__(self, value: int | fmpq = 0) -> None:
        self.terms: Terms = ring.constant(value)
        self._ball: tuple[int, arb] | None = None
        self._hash: int | None = None

    @classmethod
    def of(cls, terms: Terms) -> Exact:
        made = cls.__new__(cls)
        made.terms, made._ball, made._hash = terms, None, None
        return made

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Exact:
        b = lift(other)
        return NotImplemented if b is None else Exact.of(ring.total((self.terms, b.terms)))

    def __mul__(self, other: Any) -> Exact:
        b = lift(other)
        return NotImplemented if b is None else Exact.of(ring.product(self.terms, b.terms))

    def __neg__(self) -> Exact:
        return Exact.of(ring.scaled(self.terms, fmpq(-1)))

    def __sub__(self, other: Any) -> Exact:
        b = lift(other)
        return NotImplemented if b is None else self + -b

    def __rsub__(self, other: Any) -> Exact:
        return -self + other

    def __truediv__(self, other: Any) -> Exact:
        b = lift(other)
        return NotImplemented if b is None else self * b.inverse()

    def __rtruediv__(self, other: Any) -> Exact:
        return self.inverse() * other

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, n: int) -> Exact:
        if n < 0:
            return self.inverse() ** -n
        if n * max((int(c.height_bits()) for c in self.terms.values()), default=0) > ring.MAX_HEIGHT:
            raise InputError(f"the power {n} of a long number is too large to write out", "use smaller numbers")
        if len(self.terms) > 1 and n > 4:
            c = ring.content(self.terms)
            return Exact.of(ring.atom(Base("sum", ring.scaled(self.terms, 1 / c)), n)) * (c**n)
        plain = self.rational()
        if plain is not None:
            return Exact(plain**n)
        result = Exact(1)
        for _ in range(n):
            result = result * self
        return result

    def inverse(self) -> Exact:
        if not self:
            raise InputError("a number is divided by 0", "change the numbers so that no denominator is 0")
        return Exact.of(ring.inverse(self.terms))

    @staticmethod
    def dot(xs: Iterable[Exact], ys: Iterable[Exact]) -> Exact:
        """x·y + x'·y' + … in one pass, as in a matrix product."""
        return Exact.of(ring.dot((x.terms, y.terms) for x, y in zip(xs, ys, strict=True)))

    @staticmethod
    def matmul(left: Rows, right: Rows) -> Rows | None:
        """Return the product of two matrices of rationals; None if any number is not rational."""
        if any(x.rational() is None for rows in (left, right) for row in rows for x in row):
            return None
        a, b = (fmpq_mat([[x.rational() or fmpq(0) for x in row] for row in rows]) for rows in (left, right))
        product = a * b
        return tuple(tuple(Exact(x) for x in row) for row in product.tolist())

    # -- functions --------------------------------------------------------------------------------------------------

    def root(self, index: int = 2) -> Exact:
        """Return the positive `index`-th root of a nonnegative number."""
        if not self:
            return Exact(0)
        if self.sign() < 0:
            raise InputError(
                f"the exercise takes the square root of {self.significant(6)}, which is negative", "change its sign"
            )
        if len(self.terms) == 1:
            (((n, s, atoms), c),) = self.terms.items()
            plain = ring.root_of_rational(c, index) if n == 1 and not atoms else None
            if plain is not None:
                return Exact.of({(plain[1], tuple((m, q / index) for m, q in s), ring.NO_ATOMS): plain[0]})
        return self._under("root", index)

    def sqrt(self) -> Exact:
        return self.root(2)

    def exp(self) -> Exact:
        if abs(self.ball_at(rounding.START)).lower() > MAX_EXPONENT:
            raise InputError(f"e to the power of {self.significant(6)} is too large", "use smaller numbers or a scale")
        if ring.is_root_sum(self.terms):
            exponent = tuple(sorted((n, c) for (n, _, _), c in self.terms.items()))
            return Exact.of({(1, exponent, ring.NO_ATOMS): fmpq(1)})
        return self._under("exp")

    def sin(self) -> Exact:
        return self._under("sin") if self.terms else self

    def cos(self) -> Exact:
        return self._under("cos") if self.terms else Exact(1)

    def folded(self) -> Exact:
        """Return the same number as a single base if it is too long to read, so that later results stay small."""
        return self if self.size <= READABLE else self._under("sum")

    def _under(self, kind: str, index: int = 0) -> Exact:
        return Exact.of(ring.atom(Base(kind, self.terms, index)))

    # -- values -----------------------------------------------------------------------------------------------------

    def rational(self) -> fmpq | None:
        """Return the number as a rational; None if it is not one."""
        if not self.terms:
            return fmpq(0)
        return self.terms.get(ring.UNIT) if len(self.terms) == 1 else None

    @property
    def closed(self) -> bool:
        """Whether the number is a plain sum of roots and exponentials, without denominators or other bases."""
        return not any(atoms for _, _, atoms in self.terms)

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Return the terms alone: a cached interval cannot be pickled, and a hash belongs to its process."""
        return None, {"terms": self.terms, "_ball": None, "_hash": None}

    def ball_at(self, bits: int) -> arb:
        """Return an interval (an Arb ball) computed with `bits` of working precision."""
        if self._ball is None or self._ball[0] != bits:
            with ctx.workprec(bits):
                self._ball = (bits, ring.enclose(self.terms))
        return self._ball[1]

    def ball(self, digits: int = 20) -> arb:
        """Return an interval of relative width below 10^-digits."""
        return rounding.ball(self, digits)

    def decimal(self, places: int) -> str:
        """Format with `places` digits after the point, correctly rounded, halves away from zero."""
        return rounding.decimal(self, places)

    def significant(self, digits: int = 17) -> str:
        """Format to `digits` significant digits, correctly rounded."""
        return rounding.significant(self, digits)

    def sign(self) -> int:
        return rounding.sign(self)

    def is_zero(self) -> bool:
        if self.closed:
            return not self.terms
        if not self.ball_at(rounding.START).contains(0):
            return False
        cleared = ring.cleared(self.terms)
        return not cleared if cleared is not None else bool(self.ball_at(rounding.MAX_BITS).contains(0))

    def __bool__(self) -> bool:
        return not self.is_zero()

    def __float__(self) -> float:
        return rounding.nearest_float(self)

    def __abs__(self) -> Exact:
        return -self if self.sign() < 0 else self

    def __hash__(self) -> int:
        if self._hash is None:  # equal numbers may be written over different denominators, but have the same float
            self._hash = hash(float(self))
        return self._hash

    def __eq__(self, other: object) -> bool:
        b = lift(other)
        if b is None:
            return NotImplemented
        return self.terms == b.terms or (not (self.closed and b.closed) and (self - b).is_zero())

    def __lt__(self, other: Any) -> bool:
        return (self - other).sign() < 0

    def __le__(self, other: Any) -> bool:
        return (self - other).sign() <= 0

    def __gt__(self, other: Any) -> bool:
        return (self - other).sign() > 0

    def __ge__(self, other: Any) -> bool:
        return (self - other).sign() >= 0

    # -- showing ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Approximate length of the exact form in characters; above READABLE a decimal is easier to read."""
        return ring.size(self.terms)

    @property
    def expression(self) -> Expression:
        """The number as an expression, as written on paper."""
        return closed_form.expression(self.terms)

    def __str__(self) -> str:
        """Format in the syntax of glassformer.exercises.expression: 2*sqrt(3)/3, e^2/(e^2 + 2*e + 1)."""
        return ascii_code(self.expression)

    def __repr__(self) -> str:
        return f"Exact({self})"


def lift(value: object) -> Exact | None:
    """Convert integers and rationals to Exact; return None for anything else."""
    if isinstance(value, Exact):
        return value
    return Exact(value) if isinstance(value, int | fmpq) else None


class Masked:
    """−∞, the score of a masked position; its exponential is 0. The same in every arithmetic."""

    __slots__ = ()

    def _same(self, other: object = None) -> Masked:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _same

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False

    def __float__(self) -> float:
        return float("-inf")

    def decimal(self, places: int = 0) -> str:
        return "-inf"

    significant = decimal
    size = 1
    expression: Expression = Negative(Constant("∞"))

    def __str__(self) -> str:
        return "-inf"

    def __repr__(self) -> str:
        return "MASKED"

    def __reduce__(self) -> str:
        return "MASKED"  # pickled by name: code tests for it with `is`


MASKED = Masked()
