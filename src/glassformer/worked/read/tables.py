"""Tables: Markdown's with |, with tabs, and LaTeX's tabular.

A body of numbers is a matrix, named by the corner or the words above; two columns, a name and a number, are one
statement a row; under `token | q | k`, a row `1 | (1, 2) | (1, 0)` says q_1 = (1, 2) and k_1 = (1, 0). A table of words
is read for the formulas in its cells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from glassformer.worked.read.chain import formula
from glassformer.worked.read.targets import listed
from glassformer.worked.read.term import Blank, Matrix, Name, Term, is_numeric, names_in

_RULE = re.compile(r"^[\s|:+-]*-[\s|:+-]*$")
_MATH = re.compile(r"\$+([^$]+)\$+|\\\(((?:[^\\]|\\(?!\)))*)\\\)")
_TABULAR = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|centering)\b|\\cline\{[^}]{0,20}\}|\\multicolumn\{\d+\}\{[^}]{0,20}\}"
)

_TOKEN = re.compile(r"(?:(?:[Tt]oken|[Rr]ow|[Pp]osition|#)\s*)?\$?(?:[xti]_?\{?)?(\d{1,3})\}?\$?")

_NO_TOKEN = "which vectors these are cannot be told: number the rows, and name the columns q, k, v"


@dataclass(slots=True)
class Table:
    """What a table says: chains as (line, source, target, term), formulas in cells as (line, text), and problems."""

    chains: list[tuple[int, str, Term | None, Term]] = field(default_factory=list)
    formulas: list[tuple[int, str]] = field(default_factory=list)
    problems: list[tuple[int, str, str]] = field(default_factory=list)
    words: str = ""


@dataclass(slots=True)
class _Cell:
    text: str
    term: Term | None  # None: words, or nothing
    line: int

    @property
    def number(self) -> bool:
        return self.term is not None and is_numeric(self.term) and not isinstance(self.term, Blank)

    @property
    def named(self) -> bool:
        return self.term is not None and bool(names_in(self.term)) and len(self.text) < 40


def markdown_table(text: str, line: int) -> Table:
    rows = []
    for offset, row in enumerate(text.split("\n")):
        if not row.strip() or _RULE.match(row):
            continue
        cells = row.split("\t") if "\t" in row and "|" not in row else row.strip().strip("|").split("|")
        rows.append([_cell(cell, line + offset) for cell in cells])
    return _table(rows, line, text)


def latex_table(text: str, line: int) -> Table:
    """The inside of a tabular, which begins with its columns: {c|cc}."""
    text = re.sub(r"^\s*(?:\[[tbc]\])?\{[^\n]{0,80}?\}(?=\s|\\|$)", "", text, count=1)
    rows = []
    for row in re.split(r"\\\\", text):
        start = line + text.count("\n", 0, text.find(row))
        plain = _TABULAR.sub(" ", row)
        if plain.strip():
            rows.append([_cell(cell, start) for cell in re.split(r"(?<!\\)&", plain)])
    return _table(rows, line, text)


def _cell(text: str, line: int) -> _Cell:
    stripped = text.strip().strip("*").strip()
    inside = _MATH.fullmatch(stripped)
    source = (inside[1] or inside[2] or "") if inside else stripped
    if not source or len(source) > 400 or (not inside and re.search(r"[A-Za-z]{3,}\s|[A-Za-z]{4,}", source)):
        return _Cell(stripped, None, line)
    read = formula(source, line)
    if read.problems or len(read.drafts) != 1 or len(read.drafts[0].terms) != 1:
        return _Cell(stripped, None, line)
    return _Cell(stripped, listed(read.drafts[0].terms[0].term), line)


def _table(rows: list[list[_Cell]], line: int, source: str) -> Table:
    table = Table(words=" ".join(cell.text for cell in rows[0]) if rows else "")
    numbers = sum(cell.number for row in rows for cell in row)
    filled = sum(bool(cell.text) for row in rows for cell in row)
    if not numbers or 3 * numbers < filled:
        _formulas(rows, table)
        if any(re.fullmatch(r"[\d\s.,/+-]*\d[\d\s.,/+-]*", cell.text) for row in rows for cell in row):
            table.problems.append((line, source.strip(), "which cells of this table are numbers cannot be told"))
        return table
    if len({len(row) for row in rows}) > 1:
        widths = sorted({len(row) for row in rows})
        table.problems.append((line, source.strip(), f"the rows of the table have {widths[0]} to {widths[-1]} cells"))
        return table
    head = _head(rows)
    body = rows[1:] if head else rows
    if not body:
        table.problems.append((line, source.strip(), "a table of one row, of which not all cells are numbers"))
        return table
    if head is not None and (vectors := _vectors(head, body)):
        table.chains += vectors
        return table
    if len(body[0]) == 2 and all(row[0].named and row[1].number for row in body):
        for name, value in body:
            table.chains.append((name.line, f"{name.text} | {value.text}", name.term, value.term or Blank()))
        return table
    if any(isinstance(cell.term, Matrix) for row in body for cell in row):
        table.problems.append((line, source.strip(), _NO_TOKEN))
        return table
    side = _side(body, head is not None)
    cells = [row[1:] if side else row for row in body]
    for cell in (cell for row in cells for cell in row):
        if cell.text and not cell.number:
            table.problems.append((cell.line, cell.text, "this cell of the table is not a number that can be read"))
    matrix = Matrix(tuple(tuple(cell.term if cell.number and cell.term else Blank() for cell in row) for row in cells))
    corner = head[0].term if head and side and head[0].named else None
    if not matrix.rows or not matrix.rows[0]:
        return table
    table.chains.append((line, source.strip(), corner, matrix))
    return table


def _vectors(head: list[_Cell], body: list[list[_Cell]]) -> list[tuple[int, str, Term | None, Term]]:
    """`token | q | k` over `1 | (1, 2) | (1, 0)`: q_1 = (1, 2), k_1 = (1, 0). Empty unless every cell is such a one."""
    found: list[tuple[int, str, Term | None, Term]] = []
    tokens = [_TOKEN.fullmatch(row[0].text) for row in body]
    for row, token in zip(body, tokens, strict=True):
        for above, cell in zip(head[1:], row[1:], strict=True):
            name = above.term
            if isinstance(name, Name) and name.indices in (("i",), ("t",), ("n",)):  # q_i over the column
                name = Name(name.name, (), name.upper)
            vector = isinstance(cell.term, Matrix) and cell.term.flat and cell.number
            if token is None or not isinstance(name, Name) or name.indices or not (vector or not cell.text):
                return []
            if vector and cell.term is not None:
                target = Name(name.name, (int(token[1]),), name.upper)
                found.append((cell.line, f"{above.text}, {row[0].text}: {cell.text}", target, cell.term))
    return found


def _formulas(rows: list[list[_Cell]], table: Table) -> None:
    for row in rows:
        for cell in row:
            table.formulas += [(cell.line, found[1] or found[2] or "") for found in _MATH.finditer(cell.text)]


def _head(rows: list[list[_Cell]]) -> list[_Cell] | None:
    """The first row if it names the columns: words, names, or 1, 2, 3, … beside an empty corner."""
    first = rows[0]
    if any(not cell.number for cell in first):
        return first
    return None


def _side(body: list[list[_Cell]], headed: bool) -> bool:
    """Whether the first column names the rows."""
    first = [row[0] for row in body]
    if not headed or len(body[0]) == 1:
        return False
    counted = [cell.text for cell in first] == [str(i + 1) for i in range(len(first))]
    return all(not cell.number for cell in first) or (counted and len(body[0]) == len(body) + 1)
