"""Two sides of an equation, cell by cell: right, rounded, wrong. The rule is stated in `arithmetic`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from flint import ctx

from glassformer.worked.read.balls import (
    BITS,
    Ball,
    Grid,
    Mismatch,
    Unevaluated,
    Value,
    plain,
    rational,
    shape_text,
    transpose,
)
from glassformer.worked.read.evaluate import HALF, Axis, evaluate
from glassformer.worked.read.label import label
from glassformer.worked.read.term import Call, Constant, Matrix, Negative, Product, Root, Term, Written, walk

CellVerdict: TypeAlias = Literal["right", "rounded", "wrong"]
_WORST = {"right": 0, "rounded": 1, "wrong": 2}


@dataclass(frozen=True, slots=True)
class Cell:
    """`given` as written, `expected` to as many digits.

    `strict`: right also with every written number taken as exact.
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
    cells: tuple[Cell, ...] = ()
    reason: str = ""


def verdict_of(value: Ball, given: Term, *, approximate: bool = False, inexact: bool = False) -> CellVerdict:
    """One computed ball against one written number or expression."""
    with ctx.workprec(BITS):
        if _meets(value, given, HALF, approximate):
            return "right"
        if _meets(value, given, 3 * HALF, approximate) and not (approximate and _whole(given)):
            return "rounded"
        return "rounded" if inexact and _whole(given) and _meets(value, given, HALF, True) else "wrong"


def _whole(term: Term) -> bool:
    bare = term.term if isinstance(term, Negative) else term
    return isinstance(bare, Written) and bare.places is None


def _meets(value: Ball, given: Term, slack: Fraction, approximate: bool) -> bool:
    """Whether the ball has a number in common with what is written; the ends of a written number are exact."""
    bare = given.term if isinstance(given, Negative) else given
    if not isinstance(bare, Written) or not value.is_finite():
        other = evaluate(given, slack=slack)
        return bool(value.overlaps(other.rows[0][0] if isinstance(other, Grid) else other))
    middle = -bare.value if isinstance(given, Negative) else bare.value
    unit = Fraction(1) if approximate and bare.places is None else bare.unit
    return not (value < rational(middle - slack * unit)) and not (value > rational(middle + slack * unit))


def compare(left: Term, relation: str, right: Term) -> Comparison:
    """left = right? A softargmax of a matrix is tried over rows and over columns."""
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


def _compared(left: Term, relation: str, right: Term, axis: Axis | None) -> Comparison:
    try:
        value, exact = evaluate(left, softmax=axis), evaluate(left, slack=Fraction(0), softmax=axis)
        given = evaluate(right, softmax=axis)
    except Mismatch as error:
        return Comparison("shape", (), error.reason)
    except Unevaluated as error:
        return Comparison("unread", (), error.reason)
    inexact = any(_inexact(part) for part in walk(left))
    pair = _Pair(value, exact, given, right, relation == "≈", inexact)
    if isinstance(given, Grid) and not isinstance(value, Grid) and given.shape != (1, 1):
        return pair.one_of_many()
    return pair.cellwise(left)


def _inexact(part: Term) -> bool:
    return isinstance(part, Constant | Root | Call) or (isinstance(part, Written) and part.places is not None)


@dataclass(slots=True)
class _Pair:
    value: Value
    exact: Value
    given: Value
    right: Term
    approximate: bool
    inexact: bool

    def cellwise(self, left: Term) -> Comparison:
        value, exact, given = _grid(self.value), _grid(self.exact), _grid(self.given)
        reason = ""
        if value.shape != given.shape and value.shape == given.shape[::-1] and 1 in value.shape:
            if not (value.flat or given.flat):
                reason = "a row stands where a column is computed, or the other way round"
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

    def cell(
        self, i: int, j: int, value: Ball, exact: Ball, given: Ball, terms: tuple[tuple[Term, ...], ...] | None
    ) -> Cell:
        term = terms[i][j] if terms is not None else None
        if term is not None:
            verdict = verdict_of(value, term, approximate=self.approximate, inexact=self.inexact)
            strict = verdict == "right" and _meets(exact, term, HALF, self.approximate)
            bare = term.term if isinstance(term, Negative) else term
            places = bare.places if isinstance(bare, Written) else None
            return Cell(i + 1, j + 1, label(term), plain(exact, places), verdict, strict)
        verdict = "right" if value.overlaps(given) else "wrong"
        return Cell(i + 1, j + 1, plain(given), plain(exact), verdict, bool(exact.overlaps(given)))

    def one_of_many(self) -> Comparison:
        """0.1967·2 + … = [0; 0.6624]: a number beside a vector is one of its cells."""
        given = _grid(self.given)
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
        expected = plain(self.exact)
        return Comparison("shape", (), f"the left side is the number {expected}, the right side {_article(given)}")


def _grid(value: Value) -> Grid:
    return value if isinstance(value, Grid) else Grid(((value,),))


def _article(value: Value) -> str:
    text = shape_text(value)
    return text if text.startswith("a ") else f"a {text} matrix"


def _written_cells(term: Term, shape: tuple[int, int]) -> tuple[tuple[Term, ...], ...] | None:
    """The terms of the cells, where the right side is set out in cells."""
    if not isinstance(term, Matrix):
        return ((term,),) if shape == (1, 1) else None
    return term.rows if term.shape == shape else None


def _shapes(left: Term, value: Grid, given: Grid) -> str:
    found, stated = shape_text(value), shape_text(given)
    factors = left.factors if isinstance(left, Product) else ()
    sizes = ["{}×{}".format(*factor.shape) for factor in factors if isinstance(factor, Matrix)]
    if len(sizes) > 1 and len(sizes) == len(factors):
        return f"{' times '.join(sizes)} gives {found}, but {stated} is written"
    return f"the left side is {found}, the right side {stated}"
