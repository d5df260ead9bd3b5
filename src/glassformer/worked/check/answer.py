"""The answer of a statement: the last numbers of its chain, and why numbers of it have no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from glassformer.worked.check.own import Table, table
from glassformer.worked.read import Link, Statement, Unevaluated, evaluate
from glassformer.worked.read.term import Blank, Matrix, Name, Term, is_numeric


def answer(statement: Statement, most: int) -> Table | None:
    """The last link that stands for numbers, some of its cells open perhaps; matrices of at most `most` cells."""
    for link in reversed(statement.terms):
        found = table(link) if is_readable(link, most) else None
        if found is not None and any(found.cells()):
            return found
    return None


def carried(statement: Statement, values: Mapping[Name, Table]) -> Table | None:
    """α_4 = α_1 has the numbers that α_1 was given last, on the line where it says so."""
    last = statement.terms[-1] if statement.terms else None
    if last is None or last.relation not in ("=", "≈") or last.struck or not isinstance(last.term, Name):
        return None
    found = values.get(last.term) if last.term.indices else None
    if found is None:
        return None
    rows = (tuple(own and replace(own, line=last.line) for own in row) for row in found.rows)
    return replace(found, rows=tuple(rows))


def is_readable(link: Link, most: int) -> bool:
    if link.struck or link.relation not in ("", "=", "≈", "→"):
        return False
    return _size(link.term) <= most if isinstance(link.term, Matrix) else link.numeric


def troubles(statement: Statement, most: int) -> Iterator[tuple[int, str]]:
    """(line, reason) for each link with a number that has no value."""
    for link in statement.terms:
        if isinstance(link.term, Matrix) and _size(link.term) > most:
            yield link.line, "no step of this exercise is {}×{}".format(*link.term.shape)
        elif is_readable(link, most) and (reason := trouble(link.term)) is not None:
            yield link.line, reason


def trouble(term: Term) -> str | None:
    """Why a number, or a cell of a matrix, has no value; None if all have one."""
    cells = [cell for row in term.rows for cell in row] if isinstance(term, Matrix) else [term]
    for cell in cells:
        if not isinstance(cell, Blank) and is_numeric(cell):
            try:
                evaluate(cell)
            except Unevaluated as error:
                return error.reason
    return "the rows of the matrix differ in length" if isinstance(term, Matrix) and term.ragged else None


def _size(term: Matrix) -> int:
    return sum(len(row) for row in term.rows)
