"""CSV answers: `symbol,row,column,value`, rows that begin with their symbol, or blocks of rows under a symbol."""

from __future__ import annotations

import csv
import re

from glassformer.errors import InputError
from glassformer.worked.read.answers import Answers, Scalar
from glassformer.worked.read.statement import Link, Note, Reading, Statement, Unread
from glassformer.worked.read.term import Blank, Matrix, Term

LARGEST = 1000  # row or column
_COLUMNS = {"symbol": "symbol", "name": "symbol", "quantity": "symbol", "row": "row", "i": "row", "column": "column",
            "col": "column", "j": "column", "value": "value", "given": "value", "answer": "value"}  # fmt: skip
_NUMBER = re.compile(r"\s*[-+−]?[\d.]")
Row = tuple[int, list[str]]


def csv_answers(text: str, name: str) -> Reading:
    delimiter = _delimiter(text)
    try:
        rows = [(number, [cell.strip() for cell in row]) for number, row in _rows(text, delimiter)]
    except csv.Error as error:
        raise InputError(f"{name} is not CSV ({error})", "save it as comma-separated values") from None
    found = Answers()
    if delimiter == ";":
        rows = [(number, [_point(found, cell, number) for cell in row]) for number, row in rows]
    filled = [row for row in rows if any(row[1])]
    if filled:
        head = [_COLUMNS.get(cell.lower()) for cell in filled[0][1]]
        if {"symbol", "value"} <= set(head):
            _table(found, head, filled[1:])
        else:
            _blocks(found, rows)
    return found.reading(name, "csv")


def _rows(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    return [(reader.line_num, row) for row in reader]


def _delimiter(text: str) -> str:
    start = text[:4000]
    return max(",;\t", key=lambda mark: (start.count(mark) if mark != "," else start.count(mark) * 0.5 + 0.5))


def _point(found: Answers, cell: str, line: int) -> str:
    """Between semicolons a comma can only be a decimal comma."""
    if re.fullmatch(r"[-+−]?\d+,\d+", cell):
        found.notes.append(Note(line, cell, "a decimal comma, since semicolons separate the cells"))
        return cell.replace(",", ".")
    return cell


def _table(found: Answers, head: list[str | None], rows: list[Row]) -> None:
    """One cell a line. A symbol without row and column is a single number."""
    cells: dict[str, dict[tuple[int, int], Term]] = {}
    lines: dict[str, int] = {}
    for line, row in rows:
        given = {key: cell for key, cell in zip(head, row, strict=False) if key is not None}
        symbol, value = given.get("symbol", ""), given.get("value", "")
        place = _place(given.get("row", ""), given.get("column", ""))
        if not symbol or place is None:
            reason = f"row and column are whole numbers from 1 to {LARGEST}" if symbol else "the symbol is missing"
            found.unread.append(Unread(line, ",".join(row), reason))
            continue
        term = found.scalar(Scalar(value, line))
        lines.setdefault(symbol, line)
        if place in cells.setdefault(symbol, {}):
            found.unread.append(Unread(line, ",".join(row), "this cell was given before"))
        elif not isinstance(term, Blank):
            cells[symbol][place] = term
    for symbol, given_cells in cells.items():
        _matrix(found, Scalar(symbol, lines[symbol]), given_cells)


def _place(row: str, column: str) -> tuple[int, int] | None:
    """(0, 0) stands for a symbol that is a single number."""
    if not row and not column:
        return 0, 0
    numbers = [int(text) if text.isdecimal() and len(text) < 6 else 0 for text in (row or "1", column or "1")]
    return (numbers[0], numbers[1]) if all(1 <= n <= LARGEST for n in numbers) else None


def _matrix(found: Answers, symbol: Scalar, cells: dict[tuple[int, int], Term]) -> None:
    target = found.target(symbol)
    if target is None or not cells:
        return
    if (0, 0) in cells:
        term: Term = cells.pop((0, 0))
        if cells:
            found.unread.append(Unread(symbol.line, symbol.text, "given both with and without row and column"))
    else:
        height, width = max(i for i, _ in cells), max(j for _, j in cells)
        if height * width > 100 * len(cells) + 10_000:
            found.unread.append(Unread(symbol.line, symbol.text, f"{len(cells)} cells of a {height}×{width} matrix"))
            return
        rows = (tuple(cells.get((i, j), Blank()) for j in range(1, width + 1)) for i in range(1, height + 1))
        term = Matrix(tuple(rows))
    link = Link(symbol.line, "=", term)
    found.statements.append(Statement(symbol.line, symbol.text, target, (link,), place="answer"))


def _blocks(found: Answers, rows: list[Row]) -> None:
    """`Q` alone on a line and its rows under it, or every row with its symbol first."""
    symbol: Scalar | None = None
    body: list[tuple[Term, ...]] = []
    for line, row in [*rows, (0, [])]:
        while row and not row[-1]:
            row = row[:-1]
        named = bool(row) and not _NUMBER.match(row[0])
        same = named and symbol is not None and row[0] == symbol.text and len(row) > 1
        if (not row or (named and not same)) and symbol is not None and body:
            _block(found, symbol, body)
            symbol, body = None, []
        if named and not same:
            symbol, body = Scalar(row[0].rstrip("=: "), line), []
        values = row[1:] if named else row
        if values and symbol is None:
            found.unread.append(Unread(line, ",".join(row), "no symbol stands over or before these numbers"))
        elif values:
            body.append(tuple(found.scalar(Scalar(cell, line)) for cell in values))


def _block(found: Answers, symbol: Scalar, body: list[tuple[Term, ...]]) -> None:
    target = found.target(symbol)
    if target is None:
        return
    matrix = Matrix(tuple(body))
    if matrix.ragged:
        found.unread.append(Unread(symbol.line, symbol.text, "the rows of the matrix differ in length"))
    term: Term = body[0][0] if matrix.shape == (1, 1) else matrix
    link = Link(symbol.line, "=", term)
    found.statements.append(Statement(symbol.line, symbol.text, target, (link,), place="answer"))
