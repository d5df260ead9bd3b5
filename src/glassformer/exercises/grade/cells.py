"""A learner's answers cell by cell: entries with their digits, tables of them, and the cells of a step that they fill.

`closeness` implements the definition of rounding in docs/check.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from flint import arb, ctx, fmpq

from glassformer.exercises.arithmetic import Unevaluated, midpoint
from glassformer.exercises.evaluation import MIN_PLACES, enclose
from glassformer.exercises.expression import (
    Array,
    Blank,
    Call,
    Constant,
    Expression,
    Index,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Struck,
    Transpose,
    Unknown,
    is_numeric,
    is_struck,
    walk,
)
from glassformer.exercises.matrix import Matrix as Values
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Link, Statement

Entries: TypeAlias = "dict[tuple[int, int], Entry]"  # by row and column, counted from 0
Shape: TypeAlias = tuple[int, int]
At: TypeAlias = tuple[int | None, ...]  # counted from 0; None: every one
Closeness: TypeAlias = Literal["right", "truncated", "rounded", "wrong"]
BITS = 320
MOST_DIGITS = 400  # maximum power of ten
MOST_DIGITS_COMPARED = 14  # significant digits
TIE = fmpq(501, 1000)  # of a unit: so close to a tie, programs in single precision may round either way
AS_GOOD_AS_MASKED = -9999  # programs write −10⁹ for −∞


@dataclass(frozen=True, slots=True)
class Entry:
    """One written number.

    `value` takes every decimal as exact; `interval` covers the rounding of decimals in an expression such as e/13.8256,
    and is None for a plain number. `term` is None where only the value of a larger expression is known.
    """

    text: str
    value: Any  # an interval of negligible width, or MASKED
    term: Expression | None
    approximate: bool
    line: int
    interval: Any = None

    @property
    def places(self) -> int | None:
        """Digits after the point; None for integers and exact forms. 47% has two."""
        bare = _bare(self.term) if self.term is not None else None
        if not isinstance(bare, Number):
            return None
        if bare.places is None and bare.text.endswith("%"):
            return 2 + len(bare.text.partition(".")[2].rstrip("%"))
        return bare.places

    @property
    def decimals(self) -> int:
        """Digits after the point as written: three in 2.831·10^23, and in 28.3 %."""
        if self.places is None or "." not in self.text or self.text.endswith("%"):
            return self.places or 0
        return len(re.split(r"[^0-9]", self.text.partition(".")[2], maxsplit=1)[0])


@dataclass(frozen=True, slots=True)
class Table:
    """Entries as written; None where a cell is empty or unread. `flat`: a list, either a row or a column."""

    rows: tuple[tuple[Entry | None, ...], ...]
    flat: bool = False
    scalar: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def vector(self) -> tuple[Entry | None, ...] | None:
        """The cells of a list, a row or a column; None for a number or a matrix."""
        if self.scalar or 1 not in self.shape:
            return None
        return tuple(cell for row in self.rows for cell in row)

    @property
    def T(self) -> Table:
        return Table(tuple(zip(*self.rows, strict=True)), self.flat)

    def cells(self) -> Iterator[tuple[int, int, Entry]]:
        return ((i, j, cell) for i, row in enumerate(self.rows) for j, cell in enumerate(row) if cell is not None)


def closeness(expected: Any, entry: Entry) -> Closeness:
    """Compare a written entry with a value known to sufficient precision.

    - right: the value rounded to the digits written. An exact form must be equal. An integer must be equal, or equal to
        the value to two decimals; after ≈ it may also be the value rounded to an integer, if that is not 0.
    - truncated: the value truncated to the digits written, at least two decimals.
    - rounded: one unit of the last digit away from the rounded value, with at least two decimals.
    """
    with ctx.workprec(BITS):
        return _closeness(expected, entry)


def _closeness(expected: Any, entry: Entry) -> Closeness:
    if expected is MASKED:
        hidden = entry.value is MASKED or (entry.value.is_finite() and entry.value < AS_GOOD_AS_MASKED)
        return "right" if hidden else "wrong"
    if entry.value is MASKED or not expected.is_finite() or not entry.value.is_finite():
        return "wrong"
    if entry.interval is not None:
        return "right" if expected.overlaps(entry.interval) else "wrong"
    off = abs(expected - entry.value)
    places = entry.places
    if places is None:
        if off.contains(0):
            return "right"
        if not isinstance(_bare(entry.term) if entry.term is not None else None, Number):
            return "wrong"  # an exact form
        units = entry.approximate and abs(expected) >= 1
        return "wrong" if off > arb(fmpq(1, 2 if units else 200)) else "right"
    extra = max(0, len(re.sub(r"\D|^[\D0]+", "", entry.text.partition("e")[0])) - MOST_DIGITS_COMPARED)
    unit = arb(fmpq(10) ** (extra - places))
    if not off > (unit if extra else unit * TIE):
        return "right"  # programs compute with 53 bits, so only the first 14 of their 17 digits are certain
    if entry.decimals < MIN_PLACES:
        return "wrong"
    missing = abs(expected) - abs(entry.value)
    if missing > 0 and missing < unit and (entry.value == 0 or not expected * entry.value < 0):
        return "truncated"
    return "wrong" if off > 3 * unit / 2 else "rounded"


def agrees(expected: Any, entry: Entry) -> bool:
    """Return whether the entry is the value, rounded or truncated to the digits written."""
    return closeness(expected, entry) in ("right", "truncated")


def chance(entry: Entry) -> float:
    """Return how probable it is that a number is written by chance: less for more digits."""
    text = re.sub(r"[eE].*|[%\\\s]", "", entry.text)
    if entry.value is MASKED:
        return 0.05
    digits = re.sub(r"\D", "", text)
    digits = (digits.rstrip("0") if "." in text else digits).lstrip("0")
    return 0.08 * 10.0 ** -max(0, min(len(digits), 5) - 1) * (0.5 if "." in text or "-" in text else 1)


def format_value(expected: Any, entry: Entry | None = None, places: int = 4) -> str:
    """Format the expected value to as many digits as the learner wrote; integers stay integers."""
    if expected is MASKED:
        return "-∞"
    whole = expected.unique_fmpz() if expected.is_finite() and expected.is_exact() else None
    digits = entry.places if entry is not None else None
    if whole is not None and (entry is None or "." not in entry.text):
        return str(whole)
    return midpoint(expected, places if digits is None else digits)


def table(link: Link) -> Table | None:
    """Return the cells of one term of a chain; None if it is crossed out, ragged, or still to be computed."""
    term, approximate = link.term, link.relation == "≈"
    if isinstance(term, Struck) or is_uncomputed(term):
        return None
    if isinstance(term, Array):
        found = _matrix(term, approximate, link.line)
        return found and _located(found, link.lines)
    if isinstance(term, Transpose) and isinstance(term.term, Array):
        found = _matrix(term.term, approximate, link.line)
        return found if found is None or found.flat else found.T
    return _whole(term, approximate, link.line)


def _located(table: Table, lines: tuple[tuple[int, ...], ...]) -> Table:
    """Return the table with each entry on its own line, if there is a line for each."""
    if [len(row) for row in table.rows] != [len(row) for row in lines]:
        return table
    pairs = (zip(*rows, strict=True) for rows in zip(table.rows, lines, strict=True))
    rows = tuple(tuple(entry and replace(entry, line=line) for entry, line in row) for row in pairs)
    return replace(table, rows=rows)


def is_literal(term: Expression) -> bool:
    """Return whether the term is a number, or a matrix of numbers, with nothing left to compute."""
    if isinstance(term, Array):
        return all(is_literal(cell) for row in term.rows for cell in row)
    return isinstance(_bare(term), Number) or term == Negative(Constant("∞"))


def is_uncomputed(term: Expression) -> bool:
    """Return whether the term is still to be computed: a written-out matrix product, or softargmax of a matrix."""
    if isinstance(term, Product) and sum(isinstance(f, Array | Transpose) for f in term.factors) > 1:
        return True
    return any(isinstance(part, Call) and part.function in ("softmax", "concat") for part in walk(term))


def _matrix(term: Array, approximate: bool, line: int) -> Table | None:
    if term.ragged or not term.rows or not term.rows[0]:
        return None
    if any(isinstance(_bare(cell), Array | Transpose) for row in term.rows for cell in row):
        return _whole(term, approximate, line)
    places = [b.places for row in term.rows for b in map(_bare, row) if isinstance(b, Number) and b.places is not None]
    most = max(places, default=0)
    rows = tuple(tuple(_cell(cell, most, approximate, line) for cell in row) for row in term.rows)
    return Table(rows, term.flat)


def _cell(term: Expression, most: int, approximate: bool, line: int) -> Entry | None:
    if isinstance(term, Blank | Unknown | Name) or is_struck(term):
        return None
    bare = _bare(term)
    if isinstance(bare, Number) and bare.places is None and most >= MIN_PLACES:  # 8 beside 11.98 is 8.00
        longer = replace(bare, places=most)
        term = Negative(longer) if isinstance(term, Negative) else longer
    return _number(term, approximate, line)


def _number(term: Expression, approximate: bool, line: int) -> Entry | None:
    made = _whole(term, approximate, line)
    return made.rows[0][0] if made is not None and made.shape == (1, 1) else None


def _whole(term: Expression, approximate: bool, line: int) -> Table | None:
    """Return a number, or a matrix known only as the value of an expression, such as 1/√2 times a matrix."""
    try:
        value, interval = enclose(term, slack=Fraction(0)), enclose(term)
    except Unevaluated:
        return None
    if isinstance(value, Values) and isinstance(interval, Values):
        pairs = (zip(*rows, strict=True) for rows in zip(value.rows, interval.rows, strict=True))
        rows = tuple(tuple(_computed(x, y, approximate, line) for x, y in row) for row in pairs)
        return Table(rows, value.flat)
    term = _scientific(term)
    literal = isinstance(_bare(term), Number) or not _has_decimals(term)
    entry = Entry(label(term), _settled(value), term, approximate, line, None if literal else interval)
    return Table(((entry,),), scalar=True)


def _computed(value: Any, interval: Any, approximate: bool, line: int) -> Entry:
    return Entry(midpoint(value), _settled(value), None, approximate, line, interval)


def _scientific(term: Expression) -> Expression:
    """Convert 2.831·10^{23} to one number of three decimals, like 2.831e23."""
    match term:
        case Negative(inner):
            return Negative(_scientific(inner))
        case Product((Negative(first), second)):
            found = _scientific(Product((first, second)))
            return Negative(found) if isinstance(found, Number) else term
        case Product((Number(text, value, int(places)), Power(Number(value=base), exponent))) if base == 10:
            power = _bare(exponent)
            if isinstance(power, Number) and power.value.denominator == 1 and power.value < MOST_DIGITS:
                k = int(power.value) * (-1 if isinstance(exponent, Negative) else 1)
                return Number(f"{text}·10^{k}", value * Fraction(10) ** k, places - k)
    return term


def _has_decimals(term: Expression) -> bool:
    return any(isinstance(part, Number) and part.places is not None for part in walk(term))


def _bare(term: Expression) -> Expression:
    return term.term if isinstance(term, Negative) else term


def _settled(value: Any) -> Any:
    return MASKED if isinstance(value, arb) and not value.is_finite() and not value.is_nan() and value < 0 else value

def values_of(entries: Entries, shape: Shape) -> Values[Any]:
    """Return the written values of a step; None where nothing is written."""
    rows, columns = shape
    return Values.of([entries[i, j].value if (i, j) in entries else None for j in range(columns)] for i in range(rows))


# -- placing a table in a step -----------------------------------------------------------------------------------------


def fit(table: Table, shape: Shape, at: At | None, *, by_rows: bool, transposed: bool = False) -> Entries | None:
    """Return the cells that the table fills if placed at `at` in a matrix of `shape`; None if it does not fit.

    Without `at` the table's entry rows and columns are the matrix's, as far as they go.
    """
    if at is None:
        cells = {(i, j): entry for i, j, entry in table.cells()}
        return cells if all(i < shape[0] and j < shape[1] for i, j in cells) else None
    if transposed:
        table = table if table.scalar or 1 in table.shape else table.T
        at = at[::-1] if len(at) == 2 else at
    if len(at) == 0:
        return _fit_whole(table, shape)
    if len(at) == 1:
        return _fit_line(table, shape, at[0], by_rows)
    return _fit_cell(table, shape, at) if len(at) == 2 else None


def _fit_whole(table: Table, shape: Shape) -> Entries | None:
    if table.scalar:
        return {(i, j): entry for i, j, entry in table.cells()} if shape == (1, 1) else None
    if table.shape == shape:
        return {(i, j): entry for i, j, entry in table.cells()}
    vector = table.vector
    if vector is None or 1 not in shape or len(vector) != shape[0] * shape[1]:
        return None
    places = [(i, j) for i in range(shape[0]) for j in range(shape[1])]
    return {place: entry for place, entry in zip(places, vector, strict=True) if entry is not None}


def _fit_line(table: Table, shape: Shape, token: int | None, by_rows: bool) -> Entries | None:
    """Fit a token's row, or column in column layout; it may be written as a row, a column or a list."""
    lines, width = shape if by_rows else shape[::-1]
    if token is None or not 0 <= token < lines:
        return None
    numbers = table.rows[0] if table.scalar else table.vector
    if numbers is None or len(numbers) != width:
        return None
    return {((token, k) if by_rows else (k, token)): entry for k, entry in enumerate(numbers) if entry is not None}


def _fit_cell(table: Table, shape: Shape, at: At) -> Entries | None:
    i, j = at
    if (i is None and j is None) or not all(k is None or 0 <= k < n for k, n in zip(at, shape, strict=True)):
        return None
    places = [
        (a, b) for a in (range(shape[0]) if i is None else (i,)) for b in (range(shape[1]) if j is None else (j,))
    ]
    numbers = table.rows[0] if table.scalar or table.shape == (1, 1) else table.vector
    if numbers is None or len(numbers) not in (1, len(places)) or (len(numbers) > 1 and len(places) == 1):
        return None
    spread = numbers * len(places) if len(numbers) == 1 else numbers  # w_{3,j} = 0.25 is every cell of row 3
    return {place: entry for place, entry in zip(places, spread, strict=True) if entry is not None}


def readings(
    indices: Sequence[Index], upper: Sequence[Index], heads: int
) -> Iterator[tuple[int | None, tuple[Index, ...]]]:
    """Yield (head, cell indices) for each interpretation of `Q_1`, `q_1^{(2)}`, `w_{1,2}`, `w_{12}`, `w_{2,1,1}`."""
    head = next((i for i in upper if isinstance(i, int)), None)
    cells = tuple(indices)
    whole = all(isinstance(i, int) for i in indices)
    split = tuple(int(digit) for i in indices for digit in str(i)) if whole else cells
    shapes = list(dict.fromkeys([cells, split]))
    if head is not None:
        yield from ((head, each) for each in shapes)
        return
    for each in shapes:
        yield None, each
        if each and isinstance(each[0], int):
            yield each[0], each[1:]
        elif each and heads > 1:  # Q_i: the current head of the work
            yield None, each[1:]
        if len(each) > 1 and isinstance(each[-1], int):
            yield each[-1], each[:-1]


# -- the answer of a statement -----------------------------------------------------------------------------------------


def answer_of(statement: Statement, most: int) -> Table | None:
    """Return the last numeric link, possibly with empty cells; matrices have at most `most` cells."""
    for link in reversed(statement.terms):
        found = table(link) if is_readable(link, most) else None
        if found is not None and any(found.cells()):
            return found
    return None


def carried(statement: Statement, values: Mapping[Name, Table]) -> Table | None:
    """Resolve a reference: α_4 = α_1 takes the latest numbers of α_1, on the line of the reference."""
    last = statement.terms[-1] if statement.terms else None
    if last is None or last.relation not in ("=", "≈") or last.struck or not isinstance(last.term, Name):
        return None
    found = values.get(last.term) if last.term.indices else None
    if found is None:
        return None
    rows = (tuple(entry and replace(entry, line=last.line) for entry in row) for row in found.rows)
    return replace(found, rows=tuple(rows))


def is_readable(link: Link, most: int) -> bool:
    if link.struck or link.relation not in ("", "=", "≈", "→"):
        return False
    return _size(link.term) <= most if isinstance(link.term, Array) else link.numeric


def troubles(statement: Statement, most: int) -> Iterator[tuple[int, str]]:
    """Yield (line, reason) for each link that contains a number without a value."""
    for link in statement.terms:
        if isinstance(link.term, Array) and _size(link.term) > most:
            yield link.line, "no step of this exercise is {}×{}".format(*link.term.shape)
        elif is_readable(link, most) and (reason := trouble(link.term)) is not None:
            yield link.line, reason


def trouble(term: Expression) -> str | None:
    """Return why a number, or a cell of a matrix, has no value; None if all have one."""
    cells = [cell for row in term.rows for cell in row] if isinstance(term, Array) else [term]
    for cell in cells:
        if not isinstance(cell, Blank) and is_numeric(cell):
            try:
                enclose(cell)
            except Unevaluated as error:
                return error.reason
    return "the rows of the matrix differ in length" if isinstance(term, Array) and term.ragged else None


def _size(term: Array) -> int:
    return sum(len(row) for row in term.rows)
