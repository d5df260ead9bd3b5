"""Arithmetic that needs no exercise: are the sides of each `=` in the document equal?

Let L be the left side as a ball, every written decimal standing for all that rounds to it, and R the right side.
- **right**: some value of L rounds to what is written, that is L meets R with each decimal ±½ of its last digit. So a
  result that follows from the numbers as written, or from the unrounded numbers behind them, is right.
- **rounded**: not right, but L meets R with each decimal ±1½ of its last digit: the last digit is off by one. Also a
  whole number that a decimal or irrational left side rounds to, joined by = instead of ≈.
- **wrong**: neither. **shape**: the sizes do not fit; `cells` then compares what both sides have.
- **unread**: a side that looks like numbers but has no value that can be computed; the reason says why.

After ≈ a whole number is rounded (±½). A number beside a list or a column agrees if exactly one cell does. After → only
a computation is compared. Crossed-out parts are never judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from glassformer.worked.read.compare import Cell, compare
from glassformer.worked.read.label import label
from glassformer.worked.read.statement import Link, Reading, Relation, Statement
from glassformer.worked.read.term import (
    Matrix,
    Negative,
    Product,
    Sum,
    Term,
    Transpose,
    Written,
    is_struck,
    walk,
)

Verdict: TypeAlias = Literal["right", "rounded", "wrong", "shape", "unread"]


@dataclass(frozen=True, slots=True)
class ArithmeticFinding:
    """One comparison: `left relation right`, the worst verdict, and the cells (rows and columns from 1)."""

    line: int
    source: str
    relation: Relation
    left: Term
    right: Term
    verdict: Verdict
    cells: tuple[Cell, ...] = ()
    reason: str = ""


def arithmetic(reading: Reading) -> list[ArithmeticFinding]:
    """Every comparison that the document itself invites, in order."""
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
    """Neighbours in the chain that are numbers; what is named or crossed out between them is passed over."""
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
    statement: Statement, relation: Relation, left: Term, link: Link, origin: Product | None
) -> ArithmeticFinding:
    found = compare(left, relation, link.term)
    reason = found.reason
    if found.verdict in ("wrong", "shape") and origin is not None:
        reason = _without_one(origin, relation, link.term) or reason
    return ArithmeticFinding(link.line, statement.source, relation, left, link.term, found.verdict, found.cells, reason)


def _literal(term: Term) -> bool:
    """A number or a matrix of numbers with nothing left to compute."""
    if isinstance(term, Matrix):
        return all(_literal(cell) for row in term.rows for cell in row)
    return isinstance(term, Written) or (isinstance(term, Negative) and _literal(term.term))


_ORDINAL = ("first", "second", "third", "fourth", "fifth", "sixth")


def _without_one(origin: Product, relation: Relation, right: Term) -> str:
    """A strike that a scan has lost: says so if most cells agree once one of the matrices is left out."""
    factors = origin.factors
    if not 3 <= len(factors) <= len(_ORDINAL) or not all(isinstance(f, Matrix | Transpose) for f in factors):
        return ""
    best, said = 0, ""
    for skipped in range(len(factors)):
        found = compare(Product(factors[:skipped] + factors[skipped + 1 :]), relation, right)
        agreeing, every = sum(cell.verdict != "wrong" for cell in found.cells), len(found.cells)
        if found.verdict in ("right", "rounded", "wrong") and agreeing > best and 2 * agreeing >= every:
            count = "it agrees" if agreeing == every else f"{agreeing} of {every} cells agree"
            best, said = agreeing, f"{count} if the {_ORDINAL[skipped]} of the {len(factors)} matrices is left out"
    return said


def _sizes(statement: Statement) -> Iterator[ArithmeticFinding]:
    """A size noted under a matrix that is not its size."""
    for link in statement.terms:
        for part in walk(link.term) if not is_struck(link.term) else ():
            if isinstance(part, Matrix) and part.size is not None and not part.ragged and part.size != part.shape:
                noted, real = "×".join(map(str, part.size)), "×".join(map(str, part.shape))
                reason = f"{noted} is noted at a matrix that is {real}"
                yield ArithmeticFinding(link.line, statement.source, "=", part, part, "shape", (), reason)


def _summed(before: Statement | None, here: Statement) -> Iterator[ArithmeticFinding]:
    """[e, e², 1, e]. "If we sum them we get circa 13.8256": the sum of the list just before."""
    if before is None or here.place != "prose" or "sum" not in here.words.lower() or len(here.terms) != 1:
        return
    items = before.terms[-1].term if before.terms and before.terms[-1].numeric and not before.struck else None
    if not isinstance(items, Matrix) or len(items.rows) != 1:
        return
    total = Sum(items.rows[0]) if len(items.rows[0]) > 1 else items.rows[0][0]
    link = here.terms[0]
    found = compare(total, "≈", link.term)
    reason = found.reason or f"the sum of {label(items)}"
    yield ArithmeticFinding(link.line, here.words[-80:] + " " + here.source, "≈", total, link.term, found.verdict,
                            found.cells, reason)  # fmt: skip
