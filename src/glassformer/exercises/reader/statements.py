"""Statements: the content of a formula as chains `target = term = term ≈ term` with their lines.

Words, wide gaps, semicolons and rows end a statement; commas do where every part has its own relation. A part that
begins with a relation continues the preceding one. `(q, k) = (a, b)` is two statements, q = a and k = b.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

from glassformer.exercises.expression import (
    Array,
    Call,
    Expression,
    Index,
    Name,
    Number,
    Several,
    Struck,
    Unknown,
    is_numeric,
    is_struck,
    names_in,
    number,
)
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import symbols
from glassformer.exercises.reader.lexer import Misread, lex
from glassformer.exercises.reader.parser import COMMA, Parser

Relation: TypeAlias = Literal["", "=", "≈", "→", "<", ">", "≤", "≥", "≠", "∈", "∝"]
Place: TypeAlias = Literal["display", "inline", "plain", "prose", "table", "answer"]


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a chain. `w_{1,2}`: name w, indices (1, 2). `QK^\\top`: name "QK^T", no indices.

    `w_{12}` has the single index 12: it can be split only if the number of axes of w is known (`digits`).
    """

    name: str
    indices: tuple[Index, ...]
    upper: tuple[Index, ...]
    term: Expression

    @property
    def label(self) -> str:
        """The target as one line of plain text: w_{1,2}, W_1^Q, QK^T."""
        return label(self.term)

    @property
    def is_name(self) -> bool:
        """Whether it is a single quantity, not an expression such as QK^T."""
        return isinstance(self.term, Name)

    @property
    def digits(self) -> tuple[Index, ...]:
        """The indices with `12` taken as 1, 2: what w_{12} means for a matrix of fewer than ten rows and columns."""
        split = (tuple(map(int, str(i))) if isinstance(i, int) else (i,) for i in self.indices)
        return tuple(part for parts in split for part in parts)


@dataclass(frozen=True, slots=True)
class Link:
    """One term of a chain and the relation that joins it to the preceding term ("" if there is none).

    `lines`: the line of each cell of a matrix, if they are known.
    """

    line: int
    relation: Relation
    term: Expression
    lines: tuple[tuple[int, ...], ...] = ()

    @property
    def struck(self) -> bool:
        return is_struck(self.term)

    @property
    def numeric(self) -> bool:
        return is_numeric(self.term)


@dataclass(frozen=True, slots=True)
class Statement:
    """target = terms[0] = terms[1] ≈ …

    `words` is the prose directly before it, `context` the latest prose before it (words, unless they are empty),
    `given` the values that the same formula fixes first, as i = 0 in `i = 0 \\text{ scores to } j \\rightarrow […]`.
    """

    line: int
    source: str
    target: Target | None
    terms: tuple[Link, ...]
    words: str = ""
    context: str = ""
    given: tuple[tuple[str, Expression], ...] = ()
    place: Place = "display"
    crossed: bool = False

    @property
    def struck(self) -> bool:
        """Whether the learner crossed out all or any part of it."""
        return self.crossed or any(link.struck for link in self.terms) or (
            self.target is not None and is_struck(self.target.term)
        )

    @property
    def numeric(self) -> tuple[Link, ...]:
        """The terms that are numeric by themselves."""
        return tuple(link for link in self.terms if link.numeric)


@dataclass(frozen=True, slots=True)
class Unread:
    """Mathematics that could not be parsed or placed, and the reason."""

    line: int
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """An assumption made while reading."""

    line: int
    source: str
    assumption: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a document, in line order."""

    name: str
    kind: str
    statements: tuple[Statement, ...]
    unread: tuple[Unread, ...]
    notes: tuple[Note, ...] = ()
    text: str = ""  # the text as read, so that every number in it can be accounted for


def target_of(term: Expression) -> Target:
    """Return the target that a term names: w_{1,2}, QK^T, (QKᵀ)_{1,2}."""
    inner = term.term if isinstance(term, Struck) else term
    if isinstance(inner, Name):
        name = inner.name + "'" * inner.primes
        return Target(name, inner.indices, inner.upper, term)
    if isinstance(inner, Call) and inner.function == "entry":
        indices = tuple(int(part) if part.isdecimal() else part for part in inner.over.split(","))
        return Target(label(inner.arguments[0]), indices, (), term)
    if isinstance(inner, Call) and all(isinstance(a, Number) and a.places is None for a in inner.arguments):
        return Target(inner.function, tuple(int(a.value) for a in inner.arguments if isinstance(a, Number)), (), term)
    return Target(label(inner), (), (), term)


_PROJECTIONS = ("Q", "K", "V")


def split_target(terms: list[Link]) -> list[tuple[Target | None, tuple[Link, ...]]]:
    """Split off the target: the first term if it names something, else a later single name. One pair per statement."""
    first = terms[0]
    values = [listed(link.term) for link in terms]
    lists = all(isinstance(value, Array) and is_numeric(value) for value in values)
    if lists and len(terms) > 1 and all(link.relation == "→" for link in terms[1:]):  # (1.2, 0) → (0.8, 0.2)
        return [(None, tuple(replace(link, term=value) for link, value in zip(terms, values, strict=True)))]
    if first.relation == "" and len(terms) > 1 and isinstance(first.term, Several):
        matched = _one_by_one(first.term, terms[1:])
        if matched is not None:
            return matched
    named = [link for link in terms if isinstance(link.term, Name) and link.term.name in _PROJECTIONS]
    rest = tuple(replace(link, term=listed(link.term)) for link in terms[len(named) :])
    equal = len(named) > 1 and named == terms[: len(named)] and all(link.relation in ("", "=") for link in named)
    if equal and rest and all(is_numeric(link.term) for link in rest):  # Q = K = V = [[1, 2], [3, 4]]
        return [(target_of(link.term), rest) for link in named]
    terms = [replace(link, term=listed(link.term)) if position else link for position, link in enumerate(terms)]
    if first.relation == "" and len(terms) > 1 and (names_in(first.term) or _cell(first.term)):
        return [(target_of(first.term), tuple(terms[1:]))]
    terms[0] = replace(first, term=listed(first.term))
    if first.relation == "" and not isinstance(first.term, Unknown):
        for position, link in enumerate(terms):
            if position and link.relation == "=" and isinstance(link.term, Name):
                return [(target_of(link.term), tuple(terms[:position] + terms[position + 1 :]))]
    return [(None, tuple(terms))]


def _cell(term: Expression) -> bool:
    """Score(1, 2): an unknown function of integers is one cell of the matrix it names."""
    return isinstance(term, Call) and term.function[:1].isupper() and not term.over


def _one_by_one(target: Several, links: list[Link]) -> list[tuple[Target | None, tuple[Link, ...]]] | None:
    count = len(target.items)
    rows: list[tuple[Link, tuple[Expression, ...]]] = []
    for link in links:
        if not isinstance(link.term, Several) or len(link.term.items) != count:
            return None
        rows.append((link, link.term.items))
    return [
        (target_of(item), tuple(replace(link, term=values[position]) for link, values in rows))
        for position, item in enumerate(target.items)
    ]


def listed(term: Expression) -> Expression:
    """Convert groups: (1, 2) by itself is a list; ((1, 2), (3, 4)) is a matrix."""
    if not isinstance(term, Several):
        return term
    if all(isinstance(item, Array) and item.flat for item in term.items):
        return Array(tuple(item.rows[0] for item in term.items if isinstance(item, Array)))
    return Array((term.items,), flat=True)


MOST_TERMS = 200  # maximum number of terms in one chain
MOST_PROBLEMS = 20  # maximum number of problems reported individually for one formula
COUNTERS = frozenset("ijklmnrst")


@dataclass(slots=True)
class Draft:
    """A statement under construction. `leading`: begins with a relation; `dangling`: ends with a relation."""

    line: int
    source: str
    terms: list[Link]
    words: str = ""
    given: tuple[tuple[str, Expression], ...] = ()
    crossed: bool = False
    dangling: Relation = ""

    @property
    def leading(self) -> bool:
        return bool(self.terms) and self.terms[0].relation != ""

    def extend(self, other: Draft) -> None:
        """Append `other`, which begins with a relation or follows a dangling one."""
        first, *rest = other.terms
        if self.dangling:
            first = replace(first, relation=self.dangling)
        self.terms += [first, *rest]
        self.source = f"{self.source} {other.source}"
        self.dangling, self.crossed = other.dangling, self.crossed or other.crossed


@dataclass(slots=True)
class Formula:
    """The contents of one formula: drafts in order, unread parts, assumptions, and the words after the last draft."""

    drafts: list[Draft] = field(default_factory=list)
    problems: list[tuple[int, str, str]] = field(default_factory=list)
    notes: list[tuple[int, str, str]] = field(default_factory=list)


def parse_formula(source: str, line: int = 1) -> Formula:
    """Parse one formula; never raises."""
    try:
        tokens = lex(source, line)
    except Misread as error:
        return Formula(problems=[(line, " ".join(source.split()), error.reason)])
    if all(t.kind == "op" or t.text in ("top", "intercal") for t in tokens.items):
        return Formula()  # a symbol that is only mentioned: the dot of $\\cdot$
    chains = _Chains(Parser(tokens))
    chains.rows(0, len(tokens.items))
    problems = chains.parser.problems
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        problems[MOST_PROBLEMS:] = [(line, " ".join(source[:200].split()), f"{more} more parts of this formula")]
    return Formula(chains.drafts, problems, chains.parser.notes)


class _Chains:
    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.items = parser.tokens.items
        self.drafts: list[Draft] = []

    def rows(self, low: int, high: int, crossed: bool = False) -> None:
        """Parse each row of an aligned environment, or the whole range."""
        match = self.parser.tokens.match
        for start, stop in self.parser.split(low, high, "row"):
            inner = self.whole(start, stop)
            if inner is not None and self.is_system(start, *inner):
                self.rows(*inner, crossed)
            elif inner is not None and self.items[start].text in ("{", "s") and self.has_relation(*inner):
                self.rows(*inner, crossed)  # \\boxed{x = 5}
            elif (
                stop - start > 2 and self.items[start].kind == "cmd" and self.items[start].text in symbols.STRIKES
                and match.get(start + 1) == stop - 1 and self.has_relation(start + 2, stop - 1)
            ):  # fmt: skip
                self.rows(start + 2, stop - 1, True)
            else:
                self.row(start, stop, crossed)

    def is_system(self, start: int, low: int, high: int) -> bool:
        """Return whether an environment contains equations: align, cases, or an array whose rows have relations."""
        environment = self.items[start].text if self.items[start].kind == "begin" else ""
        return environment in symbols.ROWS or (environment == "array" and self.has_relation(low, high))

    def whole(self, low: int, high: int) -> tuple[int, int] | None:
        """Return the inside of the single bracket or environment that spans the whole range."""
        return (low + 1, high - 1) if self.parser.tokens.match.get(low) == high - 1 else None

    def has_relation(self, low: int, high: int) -> bool:
        inner = self.whole(low, high)
        if inner is not None and self.items[low].kind == "begin":
            return self.is_system(low, *inner)
        return len(self.parser.split(low, high, "rel")) > 1

    def row(self, low: int, high: int, crossed: bool) -> None:
        words: list[str] = []
        given: list[tuple[str, Expression]] = []
        clauses = self.clauses(low, high)
        for position, (start, stop, before) in enumerate(clauses):
            words += before
            for draft in self.statements(start, stop):
                draft.crossed = crossed
                counter = _counter(draft)
                if counter is not None and position + 1 < len(clauses) and clauses[position + 1][2]:
                    given.append(counter)
                    continue
                draft.words, draft.given = " ".join(words), tuple(given)
                last = self.drafts[-1] if self.drafts else None
                if last is not None and not words and (draft.leading or last.dangling):
                    last.extend(draft)
                else:
                    self.drafts.append(draft)
                    words = []

    def clauses(self, low: int, high: int) -> list[tuple[int, int, list[str]]]:
        """Return the ranges between words, semicolons, colons and gaps, each with the words before it."""
        found: list[tuple[int, int, list[str]]] = []
        before: list[str] = []
        start = index = low
        while index <= high:
            token = self.items[index] if index < high else None
            if token is None or self.ends_clause(start, index, high):
                if start < index:
                    found.append((start, index, before))
                    before = []
                if token is not None and token.kind == "words":
                    before.append(token.text)
                start = index + 1
            index = self.parser.tokens.match.get(index, index) + 1
        return found

    def ends_clause(self, start: int, index: int, high: int) -> bool:
        token = self.items[index]
        if token.kind == "gap":
            return self.complete(start, index, high)
        if token.text == ":" and self.items[start].kind == "name" and self.names_a_list(start, index, high):
            token.kind, token.text = "rel", "="
            return False
        return token.kind == "words" or (token.kind == "op" and token.text in (";", ":"))

    def names_a_list(self, start: int, colon: int, high: int) -> bool:
        """Return whether a colon names a list: Q: [[1, 2], [3, 4]]."""
        after = self.items[colon + 1] if colon + 1 < high else None
        opens = after is not None and (after.kind == "begin" or (after.kind == "open" and after.text == "["))
        return colon - start < 8 and opens and not self.has_relation(colon, high)

    def complete(self, start: int, index: int, high: int) -> bool:
        """A wide gap separates statements unless a relation stands beside it: Q = … \\quad K = …"""
        after = self.items[index + 1].kind if index + 1 < high else "row"
        return index == start or (self.items[index - 1].kind != "rel" and after != "rel")

    def statements(self, low: int, high: int) -> list[Draft]:
        """Split at commas: `a = 1, b = 2` is two statements, `x = 1, 2, 3` and `Q, K = …` are one."""
        groups: list[tuple[int, int]] = []
        before = False  # whether the last group has a relation
        for start, stop in self.parser.split(low, high, "op", ","):
            if start >= stop:
                continue
            related = self.has_relation(start, stop)
            if groups and not (related and before) and (related or not before or self.numbers(start, stop)):
                groups[-1] = (groups[-1][0], stop)
                before |= related
            else:
                groups.append((start, stop))
                before = related
        return [draft for group in groups for draft in self.chain(*group)]

    def numbers(self, low: int, high: int) -> bool:
        return any(token.kind in ("number", "begin", "open") or token.text == "…" for token in self.items[low:high])

    def chain(self, low: int, high: int) -> list[Draft]:
        """Parse term (relation term)*; `a = b ⇒ c = d` is two chains."""
        drafts: list[Draft] = []
        relation: Relation = ""
        ranges = self.parser.split(low, high, "rel")
        if len(ranges) > MOST_TERMS:
            self.parser.problem(low, high, f"a chain of more than {MOST_TERMS} terms")
            return []
        current: Draft | None = None
        first = low
        for position, (start, end) in enumerate(ranges):
            stop = end
            while start < stop and self.items[start].kind == "gap":
                start += 1
            while start < stop and self.items[stop - 1].kind == "gap":
                stop -= 1
            if start < stop:
                leads = relation == "→" and position + 1 < len(ranges) and self.named(start, stop)
                if current is None or (leads and len(current.terms) > 1):
                    current = Draft(self.items[start].line, "", [])
                    drafts.append(current)
                    relation = "" if leads else relation
                current.terms.append(Link(self.items[start].line, relation, self.segment(start, stop)))
                first = first if current.source else max(start - 1, low) if relation else start
                current.source = self.parser.tokens.text(first, stop)
                relation = ""
            if position + 1 < len(ranges):
                relation = cast(Relation, self.items[end].text)
        if current is not None:
            current.dangling = relation
        return drafts

    def named(self, low: int, high: int) -> bool:
        return any(token.kind == "name" for token in self.items[low:high])

    def thousands(self, parts: list[tuple[int, int]]) -> str:
        """Parse thousands separators: 521,428,992 outside brackets is one number; 1,000 may be two, or a decimal."""
        texts = [self.items[low].text for low, high in parts if high == low + 1]
        tight = all(self.parser.tight_comma(high) for _, high in parts[:-1])
        grouped = len(texts) == len(parts) > 2 and tight and all(len(text) == 3 for text in texts[1:])
        return "".join(texts) if grouped and len(texts[0]) <= 3 and len(texts) < 15 else ""

    def segment(self, low: int, high: int) -> Expression:
        """Parse one term of a chain, or several separated by commas."""
        commas = self.parser.split(low, high, "op", ",")
        inner = self.whole(low, high)
        if len(commas) == 1 and inner is not None and self.items[low].kind == "open" and self.items[low].text == "(":
            rows = self.parser.split(*inner, "op", ";")
            commas = self.parser.split(*inner, "op", ",") if len(rows) == 1 else commas
            low, high = inner if len(commas) > 1 else (low, high)
        commas = [part for part in commas if part[0] < part[1]]
        if len(commas) < 2:
            return self.parser.cell(low, high)
        digits = self.thousands(commas)
        if digits:
            self.parser.note(low, high, f"read as the number {digits}")
            return number(digits)
        if len(commas) == 2 and self.parser.tight_comma(commas[0][1]) and inner is None:
            return self.parser.problem(low, high, COMMA)
        return Several(tuple(self.parser.cell(*part) for part in commas))


def _counter(draft: Draft) -> tuple[str, Expression] | None:
    """Return the counter that a statement fixes for those after it: i = 0."""
    if len(draft.terms) != 2 or draft.terms[1].relation != "=":
        return None
    name, value = draft.terms[0].term, draft.terms[1].term
    if isinstance(name, Name) and name.name in COUNTERS and not name.indices and isinstance(value, Number):
        return name.name, value
    return None
