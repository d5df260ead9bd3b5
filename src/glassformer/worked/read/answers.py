"""Answers by symbol: YAML and JSON (`{"Q": [[1, 2], [3, 4]], "w_{1,2}": 0.5343}`) and CSV, as statements.

Numbers keep their written form: 0.1050 is not 0.105. CSV comes as `symbol,row,column,value` (rows and columns from 1),
as rows that begin with their symbol, or as blocks of rows under a symbol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import InputError
from glassformer.worked.read.chain import formula
from glassformer.worked.read.statement import Link, Note, Reading, Statement, Target, Unread
from glassformer.worked.read.targets import target_of
from glassformer.worked.read.term import LONGEST_NUMBER, Blank, Matrix, Name, Negative, Term, is_numeric, written

MOST_CELLS = 200_000
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?")
DEEPEST = 30
# what may stand around the answers themselves
_WRAPPERS = ("values", "answers", "answer", "solution", "given", "results")
_ASIDE = frozenset(
    ("steps", "title", "name", "student", "layout", "id", "comment", "comments", "notes", "exercise", "author")
)
_INFINITE = {"inf": "∞", "-inf": "-∞", ".inf": "∞", "-.inf": "-∞", "infinity": "∞", "-infinity": "-∞"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it was written, and its line."""

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
                self.mapping(value, head, depth + 1)
            elif name == "heads" and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
                for number, entry in enumerate(value, 1):
                    self.mapping(entry, number, depth + 1)
            else:
                self.answer(key, value, head)

    def answer(self, key: Scalar, value: Any, head: int | None) -> None:
        target = self.target(key, head)
        term = self.term(value, key.line)
        if target is None or isinstance(term, Blank):
            return
        if isinstance(term, Matrix) and term.ragged:
            self.unread.append(Unread(key.line, key.text, "the rows of the matrix differ in length"))
        self.statements.append(Statement(key.line, key.text, target, (Link(key.line, "=", term),), place="answer"))

    def target(self, key: Scalar, head: int | None = None) -> Target | None:
        read = formula(key.text, key.line)
        if read.problems or len(read.drafts) != 1 or len(read.drafts[0].terms) != 1:
            self.unread.append(Unread(key.line, key.text[:200], "this is not a symbol such as Q, Q_1 or w_{1,2}"))
            return None
        term = read.drafts[0].terms[0].term
        if head is not None and isinstance(term, Name) and not term.indices:
            term = Name(term.name, (head,), term.upper)
        return target_of(term)

    def term(self, value: Any, line: int, depth: int = 0) -> Term:
        """A number, an expression, a list, a matrix."""
        self.cells += 1
        if self.cells > MOST_CELLS:
            raise InputError(f"more than {MOST_CELLS:,} numbers", "send fewer answers at once")
        if isinstance(value, Scalar):
            return self.scalar(value)
        if not isinstance(value, list) or depth > 4:
            self.unread.append(Unread(line, "", "neither a number, nor a list, nor a matrix"))
            return Blank()
        items = tuple(self.term(item, line, depth + 1) for item in value)
        if items and all(isinstance(item, Matrix) and item.flat for item in items):
            return Matrix(tuple(item.rows[0] for item in items if isinstance(item, Matrix)))
        return Matrix((items,), flat=True)

    def scalar(self, value: Scalar) -> Term:
        text = value.text.strip()
        if text.lower() in ("", "null", "none", "~", "?", "-", "nan"):
            return Blank()
        text = _INFINITE.get(text.lower(), text)
        if _FLOAT.fullmatch(text) and len(text) < LONGEST_NUMBER:  # 1e-5 here is no e of Euler's
            number = written(text.lstrip("+-"))
            return Negative(number) if text.startswith("-") else number
        read = formula(text.strip("$"), value.line)
        single = len(read.drafts) == 1 and len(read.drafts[0].terms) == 1 and not read.problems
        if single and is_numeric(read.drafts[0].terms[0].term):
            self.notes += [Note(*note) for note in read.notes]
            return read.drafts[0].terms[0].term
        reason = read.problems[0][2] if read.problems else "this is not a number"
        self.unread.append(Unread(value.line, text[:200], reason))
        return Blank()

    def reading(self, name: str, kind: str) -> Reading:
        if not self.statements and not self.unread:
            raise InputError(f"{name} has no answers in it", 'write them by symbol, as {"Q": [[1, 2], [3, 4]]}')
        return Reading(name, kind, tuple(self.statements), tuple(self.unread), tuple(self.notes))


def answers(text: str, name: str, kind: str) -> Reading:
    """The answers of a YAML, JSON or CSV file; InputError if it is not one."""
    if kind == "csv":
        from glassformer.worked.read.csvfile import csv_answers

        return csv_answers(text, name)
    tree = _json(text, name) if kind == "json" else _yaml(text, name)
    for _ in range(2):
        inner = next((v for k, v in tree.items() if k.text.lower() in _WRAPPERS and isinstance(v, Mapping)), None)
        tree = inner if inner is not None else tree
    found = Answers()
    found.mapping(tree)
    return found.reading(name, kind)


def _json(text: str, name: str) -> Mapping[Scalar, Any]:
    """JSON with every number as it was written. Lines are those of the keys, looked for one after the other."""
    try:
        tree = json.loads(text, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise InputError(f"{name} is not JSON (line {error.lineno}: {error.msg})", "mend it there") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", "write matrices as lists of lists") from None
    if not isinstance(tree, _Pairs):
        raise InputError(f"{name} holds no mapping", 'write answers by symbol, as {"Q": [[1, 2], [3, 4]]}')
    return _Lines(text).mapping(tree)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, also those that come twice."""


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
        node = yaml.compose(text, Loader=loader)
        tree = None if node is None else _Nodes().value(node, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or "broken"
        raise InputError(f"{name} is not YAML ({where}{what})", "mend it there") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", "write matrices as lists of lists") from None
    if not isinstance(tree, dict):
        raise InputError(f"{name} holds no mapping", "write answers by symbol, as Q: [[1, 2], [3, 4]]")
    return tree


class _Nodes:
    """YAML's nodes as a tree of Scalars; aliases count each time they are used, so they cannot explode."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, node: Any, depth: int) -> Any:
        self.count += 1
        if self.count > MOST_CELLS or depth > DEEPEST:
            raise InputError(f"more than {MOST_CELLS:,} values or {DEEPEST} levels", "send fewer answers at once")
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
