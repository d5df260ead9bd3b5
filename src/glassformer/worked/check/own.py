"""What a learner wrote, one cell at a time: its text, and the ball of everything it may stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from flint import arb

from glassformer.worked.numbers import MASKED
from glassformer.worked.read import Grid, Link, Unevaluated, evaluate, label, verdict_of
from glassformer.worked.read.balls import plain
from glassformer.worked.read.evaluate import FEWEST_PLACES
from glassformer.worked.read.term import (
    Blank,
    Call,
    Matrix,
    Name,
    Negative,
    Product,
    Struck,
    Term,
    Transpose,
    Unknown,
    Written,
    is_struck,
    walk,
)

Closeness: TypeAlias = Literal["right", "rounded", "wrong"]
AS_GOOD_AS_MASKED = -9999  # −10⁹ for −∞ is how programs write it


@dataclass(frozen=True, slots=True)
class Own:
    """One written number. `term` is None where only the value of a larger expression is known."""

    text: str
    value: Any  # a ball, or MASKED
    term: Term | None
    approximate: bool
    line: int

    @property
    def places(self) -> int | None:
        """Digits after the point, None for whole numbers and exact forms."""
        bare = self.term.term if isinstance(self.term, Negative) else self.term
        return bare.places if isinstance(bare, Written) else None


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they stand; None where a cell is open or unread. `flat`: a list, row or column."""

    rows: tuple[tuple[Own | None, ...], ...]
    flat: bool = False
    scalar: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def vector(self) -> tuple[Own | None, ...] | None:
        """The cells of a list, a row or a column; None for a number or a matrix."""
        if self.scalar or 1 not in self.shape:
            return None
        return tuple(cell for row in self.rows for cell in row)

    @property
    def T(self) -> Table:
        return Table(tuple(zip(*self.rows, strict=True)), self.flat)

    def cells(self) -> Iterator[tuple[int, int, Own]]:
        return ((i, j, cell) for i, row in enumerate(self.rows) for j, cell in enumerate(row) if cell is not None)


def closeness(expected: Any, own: Own) -> Closeness:
    """Does what is written round from the expected ball? `rounded`: only its last digit is off."""
    if expected is MASKED:
        hidden = own.value is MASKED or (own.value.is_finite() and own.value < AS_GOOD_AS_MASKED)
        return "right" if hidden else "wrong"
    if own.value is MASKED or not expected.is_finite():
        return "wrong"
    if own.term is None:
        return "right" if expected.overlaps(own.value) else "wrong"
    if own.value.is_finite() and abs(expected - own.value) > 3 * own.value.rad() + 1:
        return "wrong"  # far off: no need to look at digits
    return verdict_of(expected, own.term, approximate=own.approximate, inexact=True)


def shown(expected: Any, own: Own | None = None, places: int = 4) -> str:
    """The expected value to as many digits as the learner wrote; whole numbers stay whole."""
    if expected is MASKED:
        return "-∞"
    whole = expected.unique_fmpz() if expected.is_finite() and expected.is_exact() else None
    digits = own.places if own is not None else None
    if whole is not None and (own is None or "." not in own.text):
        return str(whole)
    return plain(expected, places if digits is None else digits)


def table(link: Link) -> Table | None:
    """The cells of one term of a chain; None if it is crossed out, ragged, or still to be computed."""
    term, approximate = link.term, link.relation == "≈"
    if isinstance(term, Struck) or is_uncomputed(term):
        return None
    if isinstance(term, Matrix):
        return _matrix(term, approximate, link.line)
    return _whole(term, approximate, link.line)


def is_uncomputed(term: Term) -> bool:
    """A product of matrices set out in full, or softargmax of a matrix: what is to be done, not its result."""
    if isinstance(term, Product) and sum(isinstance(f, Matrix | Transpose) for f in term.factors) > 1:
        return True
    return any(isinstance(part, Call) and part.function in ("softmax", "concat") for part in walk(term))


def _matrix(term: Matrix, approximate: bool, line: int) -> Table | None:
    if term.ragged or not term.rows or not term.rows[0]:
        return None
    if any(isinstance(_bare(cell), Matrix | Transpose) for row in term.rows for cell in row):
        return _whole(term, approximate, line)
    places = [b.places for row in term.rows for b in map(_bare, row) if isinstance(b, Written) and b.places is not None]
    most = max(places, default=0)
    rows = tuple(tuple(_cell(cell, most, approximate, line) for cell in row) for row in term.rows)
    return Table(rows, term.flat)


def _cell(term: Term, most: int, approximate: bool, line: int) -> Own | None:
    if isinstance(term, Blank | Unknown | Name) or is_struck(term):
        return None
    bare = _bare(term)
    if isinstance(bare, Written) and bare.places is None and most >= FEWEST_PLACES:  # 8 beside 11.98 is 8.00
        longer = replace(bare, places=most)
        term = Negative(longer) if isinstance(term, Negative) else longer
    return _number(term, approximate, line)


def _number(term: Term, approximate: bool, line: int) -> Own | None:
    try:
        value = evaluate(term)
    except Unevaluated:
        return None
    if isinstance(value, Grid):
        if value.shape != (1, 1):
            return None
        value = value.rows[0][0]
    return Own(label(term), _settled(value), term, approximate, line)


def _whole(term: Term, approximate: bool, line: int) -> Table | None:
    """A number, or a matrix known only as the value of an expression, such as 1/√2 times a matrix."""
    try:
        value = evaluate(term)
    except Unevaluated:
        return None
    if isinstance(value, Grid):
        rows = tuple(tuple(Own(plain(x), _settled(x), None, approximate, line) for x in row) for row in value.rows)
        return Table(rows, value.flat)
    return Table(((Own(label(term), _settled(value), term, approximate, line),),), scalar=True)


def _bare(term: Term) -> Term:
    return term.term if isinstance(term, Negative) else term


def _settled(value: Any) -> Any:
    return MASKED if isinstance(value, arb) and not value.is_finite() and not value.is_nan() and value < 0 else value
