"""The expression tree: numbers in their written form, names with indices, matrices, operations.

All code that handles formulas shares these nodes: exercise files (`parse`), exact values (`Exact.expression`), the
equations of a solution (`steps`) and the work that learners submit (`reader`). `evaluate_expression` computes their
value in any arithmetic, and `printers` formats them as text, LaTeX and MathML.

A decimal keeps its digits: 0.1967 stands for every number that rounds to it, [0.19665, 0.19675]. Whole numbers and
fractions of whole numbers are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from glassformer.errors import InputError

Index: TypeAlias = int | str
MAX_LENGTH = 2_000  # maximum characters of one expression in an exercise file
MAX_DEPTH = 40  # maximum nesting depth
MAX_OPERATIONS = 320
MAX_DIGITS = 120  # maximum digits of one number
MAX_EXPONENT = 400  # maximum exponent in e-notation
FUNCTIONS = ("sqrt", "exp", "sin", "cos")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written. `places` counts the digits after the point; None for an integer, which is exact."""

    text: str
    value: Fraction
    places: int | None = None

    @property
    def unit(self) -> Fraction:
        """One unit of the last written digit; 0 if the number is exact."""
        return Fraction(0) if self.places is None else Fraction(10) ** -self.places


@dataclass(frozen=True, slots=True)
class Name:
    """A name with indices: `w_{1,2}` is name w, indices (1, 2); `W_1^Q` is name W, indices (1,), upper (Q,)."""

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
    term: Expression


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors side by side or with an operator between them: the scalar or the matrix product."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    top: Expression
    bottom: Expression


@dataclass(frozen=True, slots=True)
class Power:
    base: Expression
    exponent: Expression


@dataclass(frozen=True, slots=True)
class Root:
    radicand: Expression
    degree: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call: `softmax(S)`, `\\exp 2`, `\\sum_j …` (function sum, over "j"), `a ⊙ b` (hadamard), `|x|` (abs)."""

    function: str
    arguments: tuple[Expression, ...]
    over: str = ""


@dataclass(frozen=True, slots=True)
class Array:
    """A matrix, as rows of expressions. `flat`: a list such as [1, 2, 3], which may be a row or a column.

    `size` is the size the learner noted under it, as in `_{(2 \\times 3)}`. Rows may differ in length: see `ragged`.
    """

    rows: tuple[tuple[Expression, ...], ...]
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
    term: Expression


@dataclass(frozen=True, slots=True)
class Several:
    """`(q_1, k_1, v_1)`: several expressions side by side, matched one by one."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Struck:
    """An expression the learner crossed out: kept, but never graded."""

    term: Expression


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty cell."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be parsed."""

    source: str
    reason: str


Expression: TypeAlias = (
    Number | Name | Constant | Negative | Sum | Product | Quotient | Power | Root | Call
    | Array | Transpose | Several | Struck | Blank | Unknown
)  # fmt: skip


def number(text: str) -> Number:
    """Parse a written number: 0.1967, 10, .5, 1.2e-3, 19.67 %; 0.25 is exactly ¼."""
    digits = text.removesuffix("%")
    mantissa, _, exponent = digits.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or len(exponent) > 5 or abs(int(exponent or 0)) > MAX_EXPONENT:
        remedy = f"write at most {MAX_DIGITS} digits and powers of ten up to {MAX_EXPONENT}"
        raise InputError(f"the number {shorten(text)} is too long", remedy)
    before, point, after = mantissa.partition(".")
    places = len(after) - int(exponent or 0) + (2 if text.endswith("%") else 0)
    value = Fraction(int((before + after) or "0")) * Fraction(10) ** -places
    # 3.0 is a decimal, 3. is an integer as arrays print it, 20% is exact
    return Number(text, value, places if (point and after) or exponent else None)


def whole(value: int) -> Number:
    """Return a nonnegative integer as a Number."""
    return Number(str(value), Fraction(value))


def shorten(text: str, length: int = 40) -> str:
    """Shorten a value to quote it in an error message: unchanged if short, on one line."""
    flat = " ".join(text[: 4 * length].split())
    return flat if len(flat) <= length and len(text) <= 4 * length else flat[: length - 1] + "…"


def product(factors: list[Expression]) -> Expression:
    """Return the product of the factors; a single factor is returned as is."""
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def children(term: Expression) -> tuple[Expression, ...]:
    """Return the direct subterms of a term."""
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
        case Array(rows):
            return tuple(cell for row in rows for cell in row)
        case _:
            return ()


def walk(term: Expression) -> Iterator[Expression]:
    """Yield the term and all of its subterms."""
    stack = [term]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(children(here)))


def is_struck(term: Expression) -> bool:
    """Return whether any part of the term is crossed out."""
    return any(isinstance(part, Struck) for part in walk(term))


def is_numeric(term: Expression) -> bool:
    """Return whether the term is a number or matrix of numbers by itself, without names, blanks or unknown parts."""
    return not any(
        isinstance(part, Name | Blank | Unknown | Several) or (isinstance(part, Call) and part.over)
        for part in walk(term)
    )


def is_symbolic(term: Expression) -> bool:
    """Return whether the term contains a name or a matrix."""
    return any(isinstance(part, Name | Array) for part in walk(term))


def substitute(term: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace names in a formula of sums, products, quotients and powers."""
    match term:
        case Name(name):
            return values.get(name, term)
        case Sum(terms):
            return Sum(tuple(substitute(part, values) for part in terms))
        case Product(factors):
            return Product(tuple(substitute(part, values) for part in factors))
        case Quotient(top, bottom):
            return Quotient(substitute(top, values), substitute(bottom, values))
        case Power(base, exponent):
            return Power(substitute(base, values), exponent)
    return term


def names_in(term: Expression) -> tuple[Name, ...]:
    return tuple(part for part in walk(term) if isinstance(part, Name))


# -- expressions in exercise files -------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<op>\*\*|[-+*/^()√]))"
)
_SAME = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/"})


class _Parser:
    """Recursive descent parser: sum > product > sign > power > atom."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"the expression {shorten(text)} has {len(text)} characters", f"write at most {MAX_LENGTH}"
            )
        self.text = text
        self.tokens = self.split(text.translate(_SAME))
        self.at = 0
        self.depth = 0
        self.operations = 0

    def fail(self, what: str) -> InputError:
        return InputError(
            f"the expression {shorten(self.text)!r} {what}", "write numbers, + - * / ^, brackets, sqrt(…) and exp(…)"
        )

    def split(self, text: str) -> list[str]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.fail(f"has {shorten(text[at:].strip(), 12)!r} in it")
            tokens.append(match.group().strip())
            at = match.end()
        if not tokens:
            raise self.fail("is empty")
        return tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def nested(self, rule: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"is nested deeper than {MAX_DEPTH}")
        tree = rule()
        self.depth -= 1
        return tree

    def whole(self) -> Expression:
        tree = self.sum()
        if self.peek():
            raise self.fail(f"continues with {self.peek()!r} where it should end")
        return tree

    def sum(self) -> Expression:
        terms = [self.product()]
        while (sign := self.peek()) in ("+", "-"):
            self.operator()
            term = self.product()
            terms.append(Negative(term) if sign == "-" else term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def product(self) -> Expression:
        factors = [self.sign()]
        while (sign := self.peek()) in ("*", "/"):
            self.operator()
            if sign == "/":
                factors = [Quotient(product(factors), self.sign())]
            else:
                factors.append(self.sign())
        return product(factors)

    def operator(self) -> None:
        self.take()
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise self.fail(f"has more than {MAX_OPERATIONS} operations")

    def sign(self) -> Expression:
        if self.peek() in ("-", "+"):
            negative = self.take() == "-"
            tree = self.nested(self.sign)
            return Negative(tree) if negative else tree
        return self.power()

    def power(self) -> Expression:
        base = self.atom()
        if self.peek() in ("^", "**"):
            self.take()
            return Power(base, self.nested(self.sign))
        return base

    def atom(self) -> Expression:
        token = self.take()
        if token == "(":
            tree = self.nested(self.sum)
            if self.take() != ")":
                raise self.fail("has a bracket that is not closed")
            return tree
        if token == "√":
            return Root(self.nested(self.atom))
        if token[:1].isdigit() or token[:1] == ".":
            return number(token)
        if token[:1].isalpha() or token[:1] == "_":
            if self.peek() != "(":
                return Constant("e") if token == "e" else Name(token)
            if token not in FUNCTIONS:
                raise self.fail(f"calls {shorten(token, 12)!r}, which is not one of {', '.join(FUNCTIONS)}")
            argument = self.nested(self.atom)
            return Root(argument) if token == "sqrt" else Call(token, (argument,))
        raise self.fail(f"has {token!r} where a number should be" if token else "ends too early")


def parse(text: str) -> Expression:
    """Parse an expression of an exercise file, such as `2*sqrt(2)/3` or `1/sqrt(dk)`; it is never run as Python."""
    return _Parser(text).whole()
