"""What stands on the paper, as a tree: numbers in their written form, names with indices, matrices, operations.

A decimal keeps its digits: 0.1967 stands for every number that rounds to it, [0.19665, 0.19675]. Whole numbers and
fractions of whole numbers are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Index: TypeAlias = int | str
LONGEST_NUMBER = 60  # digits; nobody writes more on paper
LARGEST_EXPONENT = 400  # of the e-notation


@dataclass(frozen=True, slots=True)
class Written:
    """A number as written. `places` are the digits after the point, None for a whole number, which is exact."""

    text: str
    value: Fraction
    places: int | None

    @property
    def unit(self) -> Fraction:
        """One unit of the last written digit; 0 if the number is exact."""
        return Fraction(0) if self.places is None else Fraction(10) ** -self.places


@dataclass(frozen=True, slots=True)
class Name:
    """`w_{1,2}` is name w, indices (1, 2); `W_1^Q` is name W, indices (1,), upper (Q,)."""

    name: str
    indices: tuple[Index, ...] = ()
    upper: tuple[Index, ...] = ()
    primes: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """e, π or ∞."""

    symbol: str


@dataclass(frozen=True, slots=True)
class Negative:
    term: Term


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors beside each other or with a sign between them: the usual or the matrix product."""

    factors: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    top: Term
    bottom: Term


@dataclass(frozen=True, slots=True)
class Power:
    base: Term
    exponent: Term


@dataclass(frozen=True, slots=True)
class Root:
    radicand: Term
    degree: Term | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """`softmax(S)`, `\\exp 2`, `\\sum_j …` (function sum, over "j"), `a ⊙ b` (hadamard), `|x|` (abs)."""

    function: str
    arguments: tuple[Term, ...]
    over: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of terms. `flat`: a list such as [1, 2, 3], which may stand for a row or a column.

    `size` is what the learner noted under it, as in `_{(2 \\times 3)}`. Rows may differ in length: see `ragged`.
    """

    rows: tuple[tuple[Term, ...], ...]
    flat: bool = False
    size: tuple[int, int] | None = None

    @property
    def ragged(self) -> bool:
        return len({len(row) for row in self.rows}) > 1

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), max((len(row) for row in self.rows), default=0)


@dataclass(frozen=True, slots=True)
class Transpose:
    term: Term


@dataclass(frozen=True, slots=True)
class Several:
    """`(q_1, k_1, v_1)`: several things side by side, matched one by one."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Struck:
    """Crossed out by the learner: kept, never marked wrong."""

    term: Term


@dataclass(frozen=True, slots=True)
class Blank:
    """A cell left open."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be read."""

    source: str
    reason: str


Term: TypeAlias = (
    Written | Name | Constant | Negative | Sum | Product | Quotient | Power | Root | Call
    | Matrix | Transpose | Several | Struck | Blank | Unknown
)  # fmt: skip


def written(text: str) -> Written:
    """0.1967, 10, .5, 1.2e-3, 19.67%: value and places. Raises ValueError with the reason, in plain words."""
    digits = text.removesuffix("%")
    mantissa, _, exponent = digits.lower().partition("e")
    if len(mantissa) > LONGEST_NUMBER or len(exponent) > 5:
        raise ValueError(f"a number of {len(digits)} digits")
    shift = int(exponent or 0)
    if abs(shift) > LARGEST_EXPONENT:
        raise ValueError(f"the power of ten {shift} is too large")
    whole, point, after = mantissa.partition(".")
    places = len(after) - shift + (2 if text.endswith("%") else 0)
    value = Fraction(int((whole + after) or "0")) * Fraction(10) ** -places
    # 3.0 is a decimal, 3. is how arrays print a whole number, 20% is exact
    return Written(text, value, places if (point and after) or exponent else None)


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term."""
    match term:
        case Negative(inner) | Transpose(inner) | Struck(inner):
            return (inner,)
        case Sum(terms) | Product(terms) | Several(terms):
            return terms
        case Quotient(a, b) | Power(a, b):
            return (a, b)
        case Root(radicand, degree):
            return (radicand,) if degree is None else (radicand, degree)
        case Call():
            return term.arguments
        case Matrix(rows):
            return tuple(cell for row in rows for cell in row)
        case _:
            return ()


def walk(term: Term) -> Iterator[Term]:
    """The term and everything inside it."""
    stack = [term]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(children(here)))


def is_struck(term: Term) -> bool:
    """Whether any part of it is crossed out."""
    return any(isinstance(part, Struck) for part in walk(term))


def is_numeric(term: Term) -> bool:
    """Whether it stands for a number or a matrix of numbers by itself: nothing named, open or unread in it."""
    return not any(
        isinstance(part, Name | Blank | Unknown | Several) or (isinstance(part, Call) and part.over)
        for part in walk(term)
    )


def names_in(term: Term) -> tuple[Name, ...]:
    return tuple(part for part in walk(term) if isinstance(part, Name))
