"""Answers by symbol as statements, from YAML and JSON (`{"Q": [[1, 2], [3, 4]], "w_{1,2}": 0.5343}`) and CSV.

Numbers keep their written form: 0.1050 is not 0.105. CSV can be `symbol,row,column,value` (rows and columns from 1),
rows that begin with their symbol, or blocks of rows under a symbol.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from glassformer.errors import InputError
from glassformer.exercises.expression import (
    MAX_DIGITS,
    Array,
    Blank,
    Expression,
    Name,
    Negative,
    is_numeric,
    names_in,
    number,
)
from glassformer.exercises.reader import symbols
from glassformer.exercises.reader.formats import side_by_side
from glassformer.exercises.reader.notation import MINUS_INFINITY, plain_numbers
from glassformer.exercises.reader.printouts import TOTAL
from glassformer.exercises.reader.sentences import noun_of
from glassformer.exercises.reader.statements import (
    Link,
    Note,
    Reading,
    Statement,
    Target,
    Unread,
    parse_formula,
    target_of,
)

MOST_CELLS = 200_000
_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,2})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?: 00:00:00)?")
_WEIGHTS = re.compile(r"(?:W|weights?)[ _](query|key|value|output)", re.I)
DEEPEST = 30
# keys that may wrap the answers
_WRAPPERS = ("values", "answers", "answer", "solution", "given", "results")
_ASIDE = frozenset(
    ("steps", "title", "name", "student", "layout", "id", "comment", "comments", "note", "notes", "remark", "remarks",
     "exercise", "author", "date")
)  # fmt: skip
_QUERIES, _KEYS = ("query", "queries", "i", "row", "token"), ("key", "keys", "j", "column")
_OF_HEAD = ("Q", "K", "V", "S", "A")  # with the number of a head
_INFINITE = {"inf": "∞", ".inf": "∞", "-.inf": "-∞", "infinity": "∞"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as written, and its line."""

    text: str
    line: int


@dataclass(slots=True)
class Answers:
    """Collects statements from a tree of mappings, lists and Scalars."""

    statements: list[Statement] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    cells: int = 0

    def mapping(self, tree: Mapping[Scalar, Any], head: int | None = None, depth: int = 0) -> None:
        for key, value in tree.items():
            name = key.text.strip()
            if name.lower() in _ASIDE:
                continue
            if depth < 3 and isinstance(value, Mapping):
                rows = _labelled_rows(value)
                if rows:
                    self.answer(key, rows, head)
                else:
                    self.mapping(value, head, depth + 1)
            elif name == "heads" and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
                for number, entry in enumerate(value, 1):
                    self.mapping(entry, number, depth + 1)
            else:
                self.answer(key, value, head)

    def steps(self, steps: Any) -> None:
        """Read the steps of a solution's own JSON: a symbol, its values in exact form, and as decimals."""
        for step in steps if _is_solution(steps) else ():
            found = {key.text: (key, value) for key, value in step.items()}
            key, symbol = found["symbol"]
            target = self.target(Scalar(symbol.text, key.line))
            for form in ("exact", "decimal"):
                line, value = found[form][0].line, found[form][1]
                link = Link(line, "=", self.term(value, line), _cell_lines(value))
                self.statements.append(Statement(key.line, symbol.text, target, (link,), place="answer"))

    def answer(self, key: Scalar, value: Any, head: int | None) -> None:
        if isinstance(value, Scalar) and re.fullmatch(r"[^\W\d_]{3,}[^\d]*", value.text):
            return  # a remark
        term = self.term(value, key.line)
        matrix = isinstance(term, Array) and len(term.rows) > 1
        target = self.target(key, head, required=not matrix)
        if isinstance(term, Blank) or (target is None and not matrix):
            return
        if isinstance(term, Array) and term.ragged:
            self.unread.append(Unread(key.line, key.text, "the rows of the matrix differ in length"))
        lines = _cell_lines(value) if isinstance(value, list) and isinstance(term, Array) and not term.ragged else ()
        link = Link(key.line, "=", term, lines)
        words = "" if target is not None else key.text.replace("_", " ")
        self.statements.append(Statement(key.line, key.text, target, (link,), words, words, place="answer"))

    def target(self, key: Scalar, head: int | None = None, required: bool = True) -> Target | None:
        """Return what a key names; None if it is neither a symbol nor a noun, which is reported if it is `required`."""
        weights = _WEIGHTS.fullmatch(key.text)
        if weights is not None:  # W key
            key = Scalar(f"W_{weights[1][0].upper()}", key.line)
        noun = noun_of(key.text.replace("_", " ")) if len(key.text) > 3 else None
        if noun is not None:
            return target_of(noun if head is None else Name(noun.name, (head,)))
        read = parse_formula(key.text, key.line)
        terms = read.drafts[0].terms if len(read.drafts) == 1 else []
        if not required and re.fullmatch(r"[^\W\d_]{4,}(?:[ _][^\W\d_]+)+", key.text):
            return None
        if read.problems or not terms or (len(terms) > 1 and not isinstance(terms[0].term, Name)):
            last = key.text.split()[-1:]
            if last and len(last[0]) < 4 and last[0] != key.text:  # number of patches n
                return self.target(Scalar(last[0], key.line), head)
            self.unread.append(Unread(key.line, key.text[:200], "this is not a symbol such as Q, Q_1 or w_{1,2}"))
            return None
        term = terms[0].term  # of O, or of O = concat(H1, H2)·W_O
        factors = [name for link in terms[1:] for name in names_in(link.term) if name.name in _OF_HEAD]
        indices = {index for name in factors for index in name.indices}
        if head is None and len(indices) == 1 and all(name.indices for name in factors):  # S = Q1 K1^T
            head = next((index for index in indices if isinstance(index, int)), None)
        if head is not None and isinstance(term, Name) and not term.indices:
            term = Name(term.name, (head,), term.upper)
        return target_of(term)

    def term(self, value: Any, line: int, depth: int = 0) -> Expression:
        """Parse a number, an expression, a list or a matrix."""
        self.cells += 1
        if self.cells > MOST_CELLS:
            raise InputError(f"the answers contain more than {MOST_CELLS:,} numbers", "send fewer answers at once")
        if isinstance(value, Scalar):
            return self.scalar(value)
        if not isinstance(value, list) or depth > 4:
            self.unread.append(Unread(line, "", "neither a number, nor a list, nor a matrix"))
            return Blank()
        items = tuple(self.term(item, line, depth + 1) for item in value)
        if items and all(isinstance(item, Array) and item.flat for item in items):
            return Array(tuple(item.rows[0] for item in items if isinstance(item, Array)))
        return Array((items,), flat=True)

    def scalar(self, value: Scalar) -> Expression:
        text = value.text.strip()
        if text.lower() in ("", "null", "none", "~", "?", "-", "nan") or _DATE.fullmatch(text):
            return Blank()
        text = plain_numbers(_INFINITE.get(text.lower(), re.sub(r"^[-−]\s", "-", text)))
        if _FLOAT.fullmatch(text) and len(text) < MAX_DIGITS:  # the e of 1e-5 is not Euler's number here
            written = number(text.lstrip("+-"))
            return Negative(written) if text.startswith("-") else written
        read = parse_formula(text.strip("$"), value.line)
        single = len(read.drafts) == 1 and len(read.drafts[0].terms) == 1 and not read.problems
        if single and is_numeric(read.drafts[0].terms[0].term):
            self.notes += [Note(*note) for note in read.notes]
            return read.drafts[0].terms[0].term
        reason = read.problems[0][2] if read.problems else "this is not a number"
        self.unread.append(Unread(value.line, text[:200], reason))
        return Blank()

    def reading(self, name: str, kind: str) -> Reading:
        if not self.statements and not self.unread:
            raise InputError(f"{name} contains no answers", 'write them by symbol, as {"Q": [[1, 2], [3, 4]]}')
        return Reading(name, kind, tuple(self.statements), tuple(self.unread), tuple(self.notes))


def _labelled_rows(value: Mapping[Scalar, Any]) -> list[Any]:
    """Return the rows of a matrix or a column that are written one by one: `pos 0: [1, 2]`; [] if they are not."""
    keys = [key.text.strip() for key in value]
    labels = all(_ROW_LABEL.fullmatch(key) or (_TOKEN_NAME.fullmatch(key) or ("",) * 3)[2] for key in keys)
    rows = [row if isinstance(row, list) else [row] for row in value.values()]
    flat = all(isinstance(cell, Scalar) for row in rows for cell in row)
    return rows if labels and flat and len(rows) > 1 and not any(map(_is_vector, keys)) else []


def _is_solution(steps: Any) -> bool:
    """Return whether every step is a mapping with a symbol and its values, as in a solution's own JSON."""
    return isinstance(steps, list) and all(
        isinstance(step, Mapping)
        and {("symbol", True), ("exact", False), ("decimal", False)}
        <= {(key.text, isinstance(value, Scalar)) for key, value in step.items()}
        for step in steps
    )


def _cell_lines(value: list[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the line of each cell of a list or a matrix; () if it is nested more deeply."""
    rows = value if all(isinstance(row, list) for row in value) else [value]
    scalars = all(isinstance(cell, Scalar) for row in rows for cell in row)
    return tuple(tuple(cell.line for cell in row) for row in rows) if scalars else ()


def answers(text: str, name: str, kind: str) -> Reading:
    """Read the answers of a YAML, JSON or CSV file; InputError if it is malformed."""
    if kind == "csv":
        return csv_answers(text, name)
    tree = _json(text, name) if kind == "json" else _yaml(text, name)
    steps = next((value for key, value in tree.items() if key.text == "steps"), None)
    for _ in range(2):
        mappings = {key.text.lower(): value for key, value in tree.items() if isinstance(value, Mapping)}
        inner = next((mappings[name] for name in _WRAPPERS if name in mappings), None)
        tree = inner if inner is not None and (len(mappings) == 1 or "given" not in mappings) else tree
    found = Answers()
    found.mapping(tree)
    found.steps(steps)
    return found.reading(name, kind)


def _json(text: str, name: str) -> Mapping[Scalar, Any]:
    """Parse JSON with every number as written. Line numbers are found by searching for the keys in order."""
    try:
        tree = json.loads(text, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise InputError(f"{name} is not JSON (line {error.lineno}: {error.msg})", "correct it there") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", "write matrices as lists of lists") from None
    if not isinstance(tree, _Pairs):
        raise InputError(f"{name} is not a mapping", 'write answers by symbol, as {"Q": [[1, 2], [3, 4]]}')
    return _Lines(text).mapping(tree)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as ordered pairs, including duplicate keys."""


class _Lines:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.counted = text, 0, 1, 0

    def mapping(self, pairs: _Pairs) -> dict[Scalar, Any]:
        found: dict[Scalar, Any] = {}
        for key, value in pairs:
            place = self.text.find(json.dumps(key), self.at)
            if place < 0:
                place = self.text.find(json.dumps(key, ensure_ascii=False), self.at)
            if place >= 0:
                self.at = place + 1
                self.line += self.text.count("\n", self.counted, place)
                self.counted = place
            found[Scalar(key, self.line)] = self.value(value)
        return found

    def value(self, value: Any) -> Any:
        if isinstance(value, _Pairs):
            return self.mapping(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return Scalar("" if value is None else str(value), self.line)


def _yaml(text: str, name: str) -> Mapping[Scalar, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):  # libyaml's composer overflows the stack on deep nesting
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise InputError(f"{name} is nested too deeply", "write matrices as lists of lists")
        node = yaml.compose(text, Loader=loader)
        tree = None if node is None else _Nodes().value(node, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or "broken"
        raise InputError(f"{name} is not YAML ({where}{what})", "correct it there") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", "write matrices as lists of lists") from None
    if not isinstance(tree, dict):
        raise InputError(f"{name} is not a mapping", "write answers by symbol, as Q: [[1, 2], [3, 4]]")
    return tree


class _Nodes:
    """YAML nodes as a tree of Scalars; an alias counts each time it is used, which prevents exponential expansion."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, node: Any, depth: int) -> Any:
        self.count += 1
        if self.count > MOST_CELLS or depth > DEEPEST:
            raise InputError(
                f"the answers have more than {MOST_CELLS:,} values or {DEEPEST} levels", "send fewer answers at once"
            )
        line = node.start_mark.line + 1
        if node.id == "scalar":
            return Scalar(node.value, line)
        children: Sequence[Any] = node.value
        if node.id == "sequence":
            return [self.value(child, depth + 1) for child in children]
        return {
            Scalar(str(key.value) if key.id == "scalar" else "", key.start_mark.line + 1): self.value(value, depth + 1)
            for key, value in children
        }


LARGEST = 1000  # largest row or column
_COLUMNS = {
    word: meaning
    for meaning, words in {
        "symbol": "symbol name quantity matrix step tensor variable array what größe matrice matriz",
        "row": "row i r query line zeile ligne riga fila",
        "column": "column col j c key component spalte colonne colonna columna",
        "value": "value given answer number val entry result wert valeur valore valor",
    }.items()
    for word in words.split()
}
_NUMBER = re.compile(rf"\s*(?:[-+−]?[\d.]|{MINUS_INFINITY.pattern})", re.I)
_ASIDE_IN_TITLE = re.compile(r"\s(?:\(([^()]*(?:\([^()]*\))?[^()]*)\)|\[([^\[\]]*)\])$")
_ROW_LABEL = re.compile(r"(?:(?:tokens?|rows?|words?|positions?|quer(?:y|ies)|x|t|#)\s*_?)?\d{1,3}\.?", re.I)
_FIRST_ROW = re.compile(r"(?:token|row|word|position|query)\s*_?1\.?", re.I)
_VECTOR_LABEL = re.compile(r"(?:keys?|values?|outputs?)\s+\d{1,3}(?:\s*\([^()]*\))?", re.I)  # below a title of its own
# names of tokens: pos 0, patch 3; under a title of its own also words alone: drink, top left
_TOKEN_NAME = re.compile(r"((?:[a-z]{2}|[^\W\d_]{3,20})(?:[ -][^\W\d_]{1,20}){0,3})( \d{1,3})?")
_QUANTITY = re.compile(r"heads?|kopf|out|resid|sigma|gamma|alpha|beta|concat|final|norm|matri|layer|ffn", re.I)
_ENUMERATED = re.compile(r"\s*\(?(?:\d{1,2}|[a-h])\)\s+|\s*\d{1,2}\.\s+")  # 2) exp(S)
_CORNER = re.compile(r"(?:[^\W\d_]{1,12}\.?\s*[\\/|→]\s*)?(?:quer(?:y|ies)|keys?|tokens?|rows?|[qki])?", re.I)
Row = tuple[int, list[str]]
LocatedTerm = tuple[Expression, int]  # and its line
Cells = dict[tuple[int, int], LocatedTerm]  # by row and column


def csv_answers(text: str, name: str) -> Reading:
    delimiter = _delimiter(text)
    points = re.sub(r"(?<=\d),(?=\d)", ".", text) if delimiter == ";" else text
    try:
        rows = [(number, [cell.strip() for cell in row]) for number, row in _rows(points, delimiter)]
    except csv.Error as error:
        raise InputError(f"{name} is not CSV ({error})", "save it as comma-separated values") from None
    found = Answers()
    if points != text:
        found.notes.append(Note(1, "", "commas are read as decimal commas, since semicolons separate the cells"))
    filled = [row for row in rows if any(row[1])]
    if filled:
        head = [_COLUMNS.get(cell.lower()) for cell in filled[0][1]]
        if {"symbol", "value"} <= set(head):
            _table(found, head, filled[1:])
        else:
            _blocks(found, side_by_side(_counted_grids(_one_label(_pairs(found, rows)))))
    return replace(found.reading(name, "csv"), text=points)


def _rows(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    return [(reader.line_num, row) for row in reader]


def _delimiter(text: str) -> str:
    start = text[:4000]
    return max(",;\t", key=lambda mark: (start.count(mark) if mark != "," else start.count(mark) * 0.5 + 0.5))


def _table(found: Answers, head: list[str | None], rows: list[Row]) -> None:
    """Read one cell per line. A symbol without row and column is a single number."""
    cells: dict[str, Cells] = {}
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
            cells[symbol][place] = (term, line)
    for symbol, given_cells in cells.items():
        _matrix(found, Scalar(symbol, lines[symbol]), given_cells)


def _pairs(found: Answers, rows: list[Row]) -> list[Row]:
    """Read tables with one line per query and key (query,key,score,weight) or per token (token,q1,q2,k1,k2).

    Return the other rows.
    """
    rest: list[Row] = []
    head: list[str] = []
    start = count = 0
    matrices: dict[str, Cells] = {}
    for line, row in [*rows, (0, [])]:
        if head and len(row) >= len(head) and any(row):
            count += 1
            paired = head[1] in _KEYS
            place = _place(row[0], row[1]) if paired else (count, 0)
            for k in range(2 if paired else 1, len(head)):
                if row[k] and place is not None:
                    name, number = ("sum", 1) if TOTAL.fullmatch(head[k]) else _numbered(head[k])
                    at = place if paired else (count, number)
                    term = found.scalar(Scalar(row[k], line))
                    matrices.setdefault(head[k] if paired else name, {})[at] = (term, line)
            continue
        for name, cells in matrices.items():
            raw = name in ("score", "scores", "raw score") and any("scaled" in other for other in matrices)
            _matrix(found, Scalar("QK^T" if raw else name, start), cells)
        matrices, start, count = {}, line, 0
        head = [cell.lower() for cell in row]
        while head and not head[-1]:
            head.pop()
        numbered = len(head) > 2 and all(_numbered(name)[1] or TOTAL.fullmatch(name) for name in head[1:])
        if len(head) < 3 or head[0] not in _QUERIES or not (head[1] in _KEYS or numbered):
            head = []
            rest.append((line, row))
    return rest


def _one_label(rows: list[Row]) -> list[Row]:
    """Rewrite blocks with a column of names and one of labels, `Q;Token 1;2;0` over `;Token 2;0;2`, to one label."""
    found: list[Row] = []
    inside = False  # a block of such rows
    for (line, row), (_, below) in zip(rows, [*rows[1:], (0, [])], strict=False):
        first, label = (*row[:2], "", "")[:2]
        numeric = len(row) > 2 and bool(_ROW_LABEL.fullmatch(label)) and bool(_NUMBER.match(row[2]))
        goes_on = len(below) > 2 and not below[0] and bool(_ROW_LABEL.fullmatch(below[1]))
        starts = numeric and bool(first) and not _NUMBER.match(first) and goes_on
        if starts:
            found.append((line, [first]))
        inside = starts or (inside and numeric and not first)
        found.append((line, row[1:] if inside else row))
    return found


def _counted_grids(rows: list[Row]) -> list[Row]:
    r"""Rewrite grids such as `Query \ Key;1;2` over `1;0.5;0.5`, so that their labels are not taken for numbers.

    So is `Q;1;2` over `token 1;0.5;0.5`, where Q is the title.
    """
    found: list[Row] = []
    count = 0  # rows of the grid so far; 0 outside of one
    firsts = [row[0] if row else "" for _, row in rows[1:]] + [""]
    for (line, row), below in zip(rows, firsts, strict=True):
        row = [_ENUMERATED.sub("", row[0]), *row[1:]] if row and not any(row[1:]) else row
        filled = [cell for cell in row if cell]
        ends = len(filled) > 2 and TOTAL.fullmatch(filled[-1]) is not None
        columns = filled[1 : -1 if ends else None]
        counted = len(columns) > 1 and columns == [str(k + 1) for k in range(len(columns))]
        if counted and below == "1" and _CORNER.fullmatch(row[0]):
            count, row = 1, ["", *("column" for _ in columns), *filled[len(filled) - ends :]]
        elif counted and _FIRST_ROW.fullmatch(below) and not _NUMBER.match(row[0]):
            title = row[0] if row[0] in symbols.QUANTITIES or not _CORNER.fullmatch(row[0]) else ""
            count, row = 0, [title, *("column" for _ in columns), *filled[len(filled) - ends :]]
        elif count and filled and row[0] == str(count):
            count, row = count + 1, [f"token {row[0]}", *row[1:]]
        else:
            count = 0
        found.append((line, row))
    return found


def _numbered(name: str) -> tuple[str, int]:
    """Split `output 2` into (output, 2); 0 if it has no number."""
    base = name.rstrip("0123456789")
    number = name[len(base) :]
    return base.rstrip(" _"), int(number) if len(number) == 1 else 0


def _place(row: str, column: str) -> tuple[int, int] | None:
    """Parse a row and a column; (0, 0) means that the symbol is a single number."""
    if not row and not column:
        return 0, 0
    numbers = [int(text) if text.isdecimal() and len(text) < 6 else 0 for text in (row or "1", column or "1")]
    return (numbers[0], numbers[1]) if all(1 <= n <= LARGEST for n in numbers) else None


def _matrix(found: Answers, symbol: Scalar, cells: Cells) -> None:
    target = found.target(symbol)
    if target is None or not cells:
        return
    if (0, 0) in cells:
        term, line = cells.pop((0, 0))
        link = Link(line, "=", term)
        if cells:
            found.unread.append(Unread(symbol.line, symbol.text, "given both with and without row and column"))
    else:
        height, width = max(i for i, _ in cells), max(j for _, j in cells)
        if height * width > 100 * len(cells) + 10_000:
            found.unread.append(Unread(symbol.line, symbol.text, f"{len(cells)} cells of a {height}×{width} matrix"))
            return
        absent = (Blank(), symbol.line)
        rows = [[cells.get((i, j), absent) for j in range(1, width + 1)] for i in range(1, height + 1)]
        link = _cells_link(symbol, rows)
    found.statements.append(Statement(symbol.line, symbol.text, target, (link,), place="answer"))


def _cells_link(symbol: Scalar, rows: Sequence[Sequence[LocatedTerm]]) -> Link:
    """Return a matrix as the value of a symbol; ragged rows are reported elsewhere."""
    terms = Array(tuple(tuple(term for term, _ in row) for row in rows))
    return Link(symbol.line, "=", terms, () if terms.ragged else tuple(tuple(line for _, line in row) for row in rows))


def _blocks(found: Answers, rows: list[Row]) -> None:
    """Read blocks: a symbol or a title over its rows, which may begin with a label; or every row with its symbol first.

    Column headers under or beside a title are skipped, and so are the labels of rows below them.
    """
    symbol: Scalar | None = None
    headed = alone = False  # whether the title has column headers, and whether it has a row of its own
    title = ""  # of a sheet or a section: "Head 1"
    body: list[list[LocatedTerm]] = []
    heads: list[str] = []  # of the columns
    sums: list[LocatedTerm] = []  # of a last column
    for line, row in [*rows, (0, [])]:
        while row and not row[-1]:
            row = row[:-1]
        numeric = any(_NUMBER.match(cell) for cell in row[1:]) or (bool(row) and bool(_NUMBER.match(row[0])))
        labelled = numeric and (not _NUMBER.match(row[0])) and symbol is not None and (
            headed or not row[0] or (bool(_ROW_LABEL.fullmatch(row[0])) and not _is_vector(row[0]))
            or _names_a_token(row[0], alone) or (alone and _VECTOR_LABEL.fullmatch(row[0]) is not None)
        )  # fmt: skip
        same = numeric and symbol is not None and row[0] == symbol.text and len(row) > 1
        starts = bool(row) and not _NUMBER.match(row[0]) and not labelled and not same
        if (not row or (starts and row[0])) and symbol is not None and body:
            _block(found, symbol, body, title)
            if sums:
                _block(found, Scalar("sum", symbol.line), [[term] for term in sums], title)
            symbol, body, headed, title, sums = None, [], False, "", []
        if not row:  # column headers belong to the rows directly below them
            headed = alone = False
            heads = []
        heads = row if starts and not numeric else heads
        if starts and row[0]:
            if symbol is not None:
                title = f"{title} {symbol.text}".strip()
            symbol, body, headed = Scalar(row[0].rstrip("=: "), line), [], not numeric and len(row) > 1
            alone = not numeric
        elif starts:
            headed = symbol is not None  # column headers beside an empty corner
        if not numeric:
            continue
        values = row[1:] if labelled or same or starts else row
        if symbol is None:
            found.unread.append(Unread(line, ",".join(row), "these numbers have no symbol above or before them"))
        else:
            cells = [(found.scalar(Scalar(cell, line)), line) for cell in values]
            if TOTAL.search(row[0]) and body:  # a last row of sums
                _block(found, Scalar("sum", line), [cells], title)
                continue
            if len(heads) > 2 and TOTAL.fullmatch(heads[-1]) and len(row) == len(heads):
                sums.append(cells.pop())
            body.append(cells)


def _names_a_token(label: str, alone: bool) -> bool:
    """Return whether a label is the name of a token, not of a quantity; without a number only if its title is alone."""
    found = _TOKEN_NAME.fullmatch(label)
    if found is None or not (found[2] or alone) or _QUANTITY.match(label):
        return False
    noun = noun_of(found[1])
    counted = noun is not None and noun.name == "patch" and bool(found[2])  # patch 1
    return found[1].lower() not in symbols.FUNCTIONS and (noun is None or counted)


def _is_vector(label: str) -> bool:
    """Return whether a label such as q1 is itself a vector of the exercise, not the number of a row."""
    return label[:1].lower() in "qkvzo" and label[1:].lstrip("_").isdecimal()


def _block(found: Answers, symbol: Scalar, body: list[list[LocatedTerm]], title: str) -> None:
    aside = _ASIDE_IN_TITLE.search(symbol.text)
    if aside is not None and aside[1] in symbols.QUANTITIES:  # flattened patches (P)
        symbol = Scalar(aside[1], symbol.line)
    elif aside is not None:  # QK^T (head 1), scaled (/sqrt 2), concat [head 1 | head 2]
        title, symbol = f"{title} {aside[1] or aside[2]}".strip(), Scalar(symbol.text[: aside.start()], symbol.line)
    target = found.target(symbol)
    if target is None:
        return
    link = _cells_link(symbol, body)
    if not link.lines:
        found.unread.append(Unread(symbol.line, symbol.text, "the rows of the matrix differ in length"))
    if len(body) == len(body[0]) == 1:
        (term, line) = body[0][0]
        link = Link(line, "=", term)
    found.statements.append(Statement(symbol.line, symbol.text, target, (link,), title, title, place="answer"))
