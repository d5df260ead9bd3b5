"""evaluate(term) → a ball, or a Grid of balls: what the written numbers allow, and nothing that runs for long.

`slack` says how far a written decimal may be from what was meant, in units of its last digit: ½ is correct rounding,
0 takes it as exact. Powers and exponentials beyond 2^±20000 are refused, and so are products of huge matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

from flint import arb, ctx

from glassformer.worked.read import balls
from glassformer.worked.read.balls import BITS, Ball, Grid, Mismatch, Unevaluated, Value, ball, rational
from glassformer.worked.read.functions import apply
from glassformer.worked.read.label import label
from glassformer.worked.read.term import (
    Blank,
    Call,
    Constant,
    Matrix,
    Name,
    Negative,
    Power,
    Product,
    Quotient,
    Root,
    Several,
    Struck,
    Sum,
    Term,
    Transpose,
    Unknown,
    Written,
)

HALF = Fraction(1, 2)
Axis: TypeAlias = Literal["rows", "columns"]
Lookup: TypeAlias = Callable[[Name], Value | None]
FEWEST_PLACES = 2  # a whole number beside decimals of at least so many places is one of them, its zeros left out


def evaluate(term: Term, *, slack: Fraction = HALF, lookup: Lookup | None = None, softmax: Axis | None = None) -> Value:
    """The value of a term. `lookup` gives the values of names, `softmax` the axis over which it runs in a matrix.

    Raises Unevaluated, or Mismatch if sizes do not fit, with the reason in plain words.
    """
    with ctx.workprec(BITS):
        value = _Evaluator(slack, lookup, softmax).value(term)
        if any(cell.is_nan() for row in _cells(value) for cell in row):
            raise Unevaluated(f"{_shown(term)} has no value")
        return value


def _cells(value: Value) -> tuple[tuple[Ball, ...], ...]:
    return value.rows if isinstance(value, Grid) else ((value,),)


def _shown(term: Term) -> str:
    text = label(term)
    return text if len(text) <= 60 else text[:59] + "…"


class _Evaluator:
    def __init__(self, slack: Fraction, lookup: Lookup | None, axis: Axis | None) -> None:
        self.slack, self.lookup, self.axis = slack, lookup, axis

    def value(self, term: Term) -> Value:
        match term:
            case Written():
                return ball(term.value, term.unit, self.slack)
            case Constant(symbol):
                return {"e": arb.const_e, "π": arb.pi, "∞": arb.pos_inf}[symbol]()
            case Negative(inner):
                value = self.value(inner)
                return value.map(lambda x: -x) if isinstance(value, Grid) else -value
            case Struck(inner):
                return self.value(inner)
            case Sum(terms):
                return self.folded(balls.add, terms)
            case Product(factors):
                return self.folded(balls.multiply, factors)
            case Quotient(top, bottom):
                return balls.divide(self.value(top), self.value(bottom))
            case Power(base, exponent):
                return self.power(base, exponent)
            case Root(radicand, degree):
                return balls.root(self.value(radicand), 2 if degree is None else self.value(degree))
            case Transpose(inner):
                value = self.value(inner)
                return balls.transpose(value)
            case Matrix():
                return self.matrix(term)
            case Several(items):
                return self.matrix(Matrix((items,), flat=True))
            case Call(function, arguments, over):
                if over:
                    raise Unevaluated(f"what {_shown(term)} runs over is not given in numbers")
                return apply(function, [self.value(argument) for argument in arguments], self.axis)
            case Name():
                found = self.lookup(term) if self.lookup is not None else None
                if found is None:
                    raise Unevaluated(f"{_shown(term)} is not a number")
                return found
            case Blank():
                raise Unevaluated("a cell is empty")
            case Unknown(source):
                raise Unevaluated(f"{source[:60]} could not be read")

    def folded(self, operation: Callable[[Value, Value], Value], terms: tuple[Term, ...]) -> Value:
        total = self.value(terms[0])
        for term in terms[1:]:
            total = operation(total, self.value(term))
        return total

    def power(self, base: Term, exponent: Term) -> Value:
        raised = self.value(exponent)
        if isinstance(base, Constant) and base.symbol == "e":
            return apply("exp", [raised], self.axis)
        return balls.power(self.value(base), raised)

    def matrix(self, matrix: Matrix) -> Value:
        if matrix.ragged:
            raise Mismatch("the rows of the matrix differ in length")
        unit = self.zeros_left_out(matrix)
        rows = [[self.entry(cell, unit) for cell in row] for row in matrix.rows]
        if any(isinstance(cell, Grid) for row in rows for cell in row):
            return balls.blocks(rows)
        return Grid(tuple(map(tuple, rows)), matrix.flat)

    def zeros_left_out(self, matrix: Matrix) -> Fraction:
        """The unit of the most places among the matrix's decimals; 0 if its whole numbers are exact."""
        places = [cell.places for row in matrix.rows for cell in map(_unsigned, row) if isinstance(cell, Written)]
        most = max((p for p in places if p is not None), default=0)
        return Fraction(1, 10**most) if most >= FEWEST_PLACES else Fraction(0)

    def entry(self, cell: Term, unit: Fraction) -> Value:
        bare = _unsigned(cell)
        if unit and isinstance(bare, Written) and bare.places is None:
            value = ball(bare.value, unit, self.slack)
            return -value if isinstance(cell, Negative) else value
        return self.value(cell)


def _unsigned(term: Term) -> Term:
    return term.term if isinstance(term, Negative) else term


def exactly(value: Fraction | int) -> Ball:
    """An exact number as a ball, for `lookup`."""
    with ctx.workprec(BITS):
        return rational(Fraction(value))
