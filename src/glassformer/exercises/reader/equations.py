"""Checks of arithmetic that need no exercise: are the sides of each `=` in the document equal?

Let L be the left side as an interval, in which every written decimal stands for all numbers that round to it, and R the
right side.
- **right**: some value of L rounds to what is written, that is L meets R with each decimal ±½ of its last digit. So a
  result that follows from the numbers as written, or from the unrounded numbers behind them, is right.
- **rounded**: not right, but L meets R with each decimal ±1½ of its last digit: the last digit is off by one. Also an
    integer that a decimal or irrational left side rounds to, joined by = instead of ≈.
- **wrong**: neither. **shape**: the sizes do not match; `cells` then compares the cells that both sides have.
- **unread**: a side that looks numeric but cannot be evaluated; the reason explains why.

After ≈ an integer is taken as rounded (±½). A number beside a list or a column agrees if exactly one cell does. After →
only a computation is compared. Crossed-out parts are never graded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from flint import ctx

from glassformer.exercises.arithmetic import HALF, Interval, Mismatch, Unevaluated, interval, midpoint
from glassformer.exercises.evaluation import BITS, Axis, Value, as_matrix, enclose, shape_text, transpose
from glassformer.exercises.expression import (
    Array,
    Call,
    Constant,
    Expression,
    Negative,
    Number,
    Product,
    Root,
    Sum,
    Transpose,
    is_struck,
    walk,
)
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader.statements import Link, Reading, Relation, Statement

CellVerdict: TypeAlias = Literal["right", "rounded", "wrong"]
Cells: TypeAlias = tuple[tuple[Expression, ...], ...]
_WORST = {"right": 0, "rounded": 1, "wrong": 2}


@dataclass(frozen=True, slots=True)
class CellCheck:
    """A compared cell: `given` as written, `expected` to the same number of digits.

    `strict`: also right with every written number taken as exact.
    """

    row: int
    column: int
    given: str
    expected: str
    verdict: CellVerdict
    strict: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    verdict: Literal["right", "rounded", "wrong", "shape", "unread"]
    cells: tuple[CellCheck, ...] = ()
    reason: str = ""


def verdict_of(value: Interval, given: Expression, *, approximate: bool = False, inexact: bool = False) -> CellVerdict:
    """Compare a computed interval with a written number or expression."""
    with ctx.workprec(BITS):
        if _meets(value, given, HALF, approximate):
            return "right"
        if _meets(value, given, 3 * HALF, approximate) and not (approximate and _whole(given)):
            return "rounded"
        return "rounded" if inexact and _whole(given) and _meets(value, given, HALF, True) else "wrong"


def _whole(term: Expression) -> bool:
    bare = term.term if isinstance(term, Negative) else term
    return isinstance(bare, Number) and bare.places is None


def _meets(value: Interval, given: Expression, slack: Fraction, approximate: bool) -> bool:
    """Return whether the interval intersects the written value; the endpoints of a written number are exact."""
    bare = given.term if isinstance(given, Negative) else given
    if not isinstance(bare, Number) or not value.is_finite():
        other = enclose(given, slack=slack)
        return bool(value.overlaps(other.rows[0][0] if isinstance(other, Matrix) else other))
    middle = -bare.value if isinstance(given, Negative) else bare.value
    unit = Fraction(1) if approximate and bare.places is None else bare.unit
    return not (value < interval(middle - slack * unit)) and not (value > interval(middle + slack * unit))


def compare_sides(left: Expression, relation: str, right: Expression) -> Comparison:
    """Check left = right. A softargmax of a matrix is tried over rows and over columns."""
    axes: tuple[Axis | None, ...] = (None,)
    if any(isinstance(part, Call) and part.function == "softmax" for part in walk(left)):
        axes = ("rows", "columns")
    best: Comparison | None = None
    for axis in axes:
        found = _compared(left, relation, right, axis)
        if best is None or _rank(found) < _rank(best):
            best = found
    assert best is not None
    return best


def _rank(found: Comparison) -> tuple[int, int]:
    order = {"right": 0, "rounded": 1, "wrong": 2, "shape": 3, "unread": 4}
    return order[found.verdict], sum(cell.verdict != "right" for cell in found.cells)


def _compared(left: Expression, relation: str, right: Expression, axis: Axis | None) -> Comparison:
    try:
        value, exact = enclose(left, axis=axis), enclose(left, slack=Fraction(0), axis=axis)
        given = enclose(right, axis=axis)
    except Mismatch as error:
        return Comparison("shape", (), error.reason)
    except Unevaluated as error:
        return Comparison("unread", (), error.reason)
    inexact = any(_inexact(part) for part in walk(left))
    pair = _Pair(value, exact, given, right, relation == "≈", inexact)
    if isinstance(given, Matrix) and not isinstance(value, Matrix) and given.shape != (1, 1):
        return pair.one_of_many()
    return pair.cellwise(left)


def _inexact(part: Expression) -> bool:
    return isinstance(part, Constant | Root | Call) or (isinstance(part, Number) and part.places is not None)


@dataclass(slots=True)
class _Pair:
    value: Value
    exact: Value
    given: Value
    right: Expression
    approximate: bool
    inexact: bool

    def cellwise(self, left: Expression) -> Comparison:
        value, exact, given = as_matrix(self.value), as_matrix(self.exact), as_matrix(self.given)
        reason = ""
        if value.shape != given.shape and value.shape == given.shape[::-1] and 1 in value.shape:
            if not (value.flat or given.flat):
                reason = "a row is written where a column is computed, or the other way round"
            value, exact = transpose(value), transpose(exact)
        cells = []
        terms = _written_cells(self.right, given.shape)
        for i, j in ((i, j) for i in range(given.shape[0]) for j in range(given.shape[1])):
            if i < value.shape[0] and j < value.shape[1]:
                cells.append(self.cell(i, j, value.rows[i][j], exact.rows[i][j], given.rows[i][j], terms))
        if value.shape != given.shape:
            return Comparison("shape", tuple(cells), _shapes(left, value, given))
        worst: CellVerdict = max((cell.verdict for cell in cells), key=_WORST.__getitem__, default="right")
        return Comparison(worst, tuple(cells), reason)

    def cell(self, i: int, j: int, value: Interval, exact: Interval, given: Interval, terms: Cells | None) -> CellCheck:
        term = terms[i][j] if terms is not None else None
        if term is not None:
            verdict = verdict_of(value, term, approximate=self.approximate, inexact=self.inexact)
            strict = verdict == "right" and _meets(exact, term, HALF, self.approximate)
            bare = term.term if isinstance(term, Negative) else term
            places = bare.places if isinstance(bare, Number) else None
            return CellCheck(i + 1, j + 1, label(term), midpoint(exact, places), verdict, strict)
        verdict = "right" if value.overlaps(given) else "wrong"
        return CellCheck(i + 1, j + 1, midpoint(given), midpoint(exact), verdict, bool(exact.overlaps(given)))

    def one_of_many(self) -> Comparison:
        """0.1967·2 + … = [0; 0.6624]: a number beside a vector is compared with each of its cells."""
        given = as_matrix(self.given)
        terms = _written_cells(self.right, given.shape)
        cells = [
            self.cell(i, j, self.value, self.exact, given.rows[i][j], terms)
            for i in range(given.shape[0])
            for j in range(given.shape[1])
        ]
        for wanted in ("right", "rounded"):
            agreeing = [cell for cell in cells if cell.verdict == wanted]
            if len(agreeing) == 1:
                cell = agreeing[0]
                where = f"row {cell.row}" if given.shape[1] == 1 else f"row {cell.row}, column {cell.column}"
                reason = f"a number beside {_article(given)}: it is the cell in {where}"
                return Comparison(cell.verdict, (cell,), reason)
        expected = midpoint(self.exact)
        return Comparison("shape", (), f"the left side is the number {expected}, the right side {_article(given)}")


def _article(value: Value) -> str:
    text = shape_text(value)
    return text if text.startswith("a ") else f"a {text} matrix"


def _written_cells(term: Expression, shape: tuple[int, int]) -> Cells | None:
    """Return the terms of the cells if the right side is written out in cells."""
    if not isinstance(term, Array):
        return ((term,),) if shape == (1, 1) else None
    return term.rows if term.shape == shape else None


def _shapes(left: Expression, value: Matrix[Any], given: Matrix[Any]) -> str:
    found, stated = shape_text(value), shape_text(given)
    factors = left.factors if isinstance(left, Product) else ()
    sizes = ["{}×{}".format(*factor.shape) for factor in factors if isinstance(factor, Array)]
    if len(sizes) > 1 and len(sizes) == len(factors):
        return f"{' times '.join(sizes)} gives {found}, but {stated} is written"
    return f"the left side is {found}, the right side {stated}"


Verdict: TypeAlias = Literal["right", "rounded", "wrong", "shape", "unread"]


@dataclass(frozen=True, slots=True)
class ArithmeticFinding:
    """One comparison: `left relation right`, the worst verdict, and the cells (rows and columns from 1)."""

    line: int
    source: str
    relation: Relation
    left: Expression
    right: Expression
    verdict: Verdict
    cells: tuple[CellCheck, ...] = ()
    reason: str = ""


def arithmetic(reading: Reading) -> list[ArithmeticFinding]:
    """Return every comparison that the document itself contains, in order."""
    findings: list[ArithmeticFinding] = []
    before: Statement | None = None
    for statement in reading.statements:
        if not statement.crossed:
            findings.extend(_sizes(statement))
            findings.extend(_chain(statement))
            findings.extend(_summed(before, statement))
        before = statement
    return findings


def _chain(statement: Statement) -> Iterator[ArithmeticFinding]:
    """Compare numeric neighbours in the chain, skipping names and crossed-out terms between them."""
    left: Link | None = None
    origin: Product | None = None
    relations: set[Relation] = set()
    for link in statement.terms:
        relations.add(link.relation)
        if not link.numeric or link.struck:
            continue
        if left is not None and relations <= {"=", "≈", "→"}:
            relation: Relation = "→" if "→" in relations else "≈" if "≈" in relations else "="
            if relation != "→" or not _literal(left.term):
                yield _finding(statement, relation, left.term, link, origin)
        left, relations = link, set()
        origin = link.term if isinstance(link.term, Product) else origin


def _finding(
    statement: Statement, relation: Relation, left: Expression, link: Link, origin: Product | None
) -> ArithmeticFinding:
    found = compare_sides(left, relation, link.term)
    reason = found.reason
    if found.verdict in ("wrong", "shape") and origin is not None:
        reason = _without_one(origin, relation, link.term) or reason
    return ArithmeticFinding(link.line, statement.source, relation, left, link.term, found.verdict, found.cells, reason)


def _literal(term: Expression) -> bool:
    """Return whether the term is a number or a matrix of numbers with nothing left to compute."""
    if isinstance(term, Array):
        return all(_literal(cell) for row in term.rows for cell in row)
    return isinstance(term, Number) or (isinstance(term, Negative) and _literal(term.term))


_ORDINAL = ("first", "second", "third", "fourth", "fifth", "sixth")


def _without_one(origin: Product, relation: Relation, right: Expression) -> str:
    """Detect a strikethrough lost in a scan: report if most cells agree once one of the matrices is left out."""
    factors = origin.factors
    if not 3 <= len(factors) <= len(_ORDINAL) or not all(isinstance(f, Array | Transpose) for f in factors):
        return ""
    best, reason = 0, ""
    for skipped in range(len(factors)):
        found = compare_sides(Product(factors[:skipped] + factors[skipped + 1 :]), relation, right)
        agreeing, every = sum(cell.verdict != "wrong" for cell in found.cells), len(found.cells)
        if found.verdict in ("right", "rounded", "wrong") and agreeing > best and 2 * agreeing >= every:
            count = "it agrees" if agreeing == every else f"{agreeing} of {every} cells agree"
            best, reason = agreeing, f"{count} if the {_ORDINAL[skipped]} of the {len(factors)} matrices is left out"
    return reason


def _sizes(statement: Statement) -> Iterator[ArithmeticFinding]:
    """Report a size noted under a matrix that differs from its actual size."""
    for link in statement.terms:
        for part in walk(link.term) if not is_struck(link.term) else ():
            if isinstance(part, Array) and part.size is not None and not part.ragged and part.size != part.shape:
                noted, real = "×".join(map(str, part.size)), "×".join(map(str, part.shape))
                reason = f"a matrix of size {real} is labelled {noted}"
                yield ArithmeticFinding(link.line, statement.source, "=", part, part, "shape", (), reason)


def _summed(before: Statement | None, here: Statement) -> Iterator[ArithmeticFinding]:
    """[e, e², 1, e]. "If we sum them we get circa 13.8256": check the sum of the preceding list.

    "For token 1 the sum is 13.8256" is a sum of its own.
    """
    if before is None or here.place != "prose" or here.target is not None or len(here.terms) != 1:
        return
    if "sum" not in here.words.lower():
        return
    items = before.terms[-1].term if before.terms and before.terms[-1].numeric and not before.struck else None
    if not isinstance(items, Array) or len(items.rows) != 1:
        return
    total = Sum(items.rows[0]) if len(items.rows[0]) > 1 else items.rows[0][0]
    link = here.terms[0]
    found = compare_sides(total, "≈", link.term)
    reason = found.reason or f"the sum of {label(items)}"
    yield ArithmeticFinding(link.line, here.words[-80:] + " " + here.source, "≈", total, link.term, found.verdict,
                            found.cells, reason)  # fmt: skip
