"""Chains: a formula → statements `target = term = term ≈ term`.

Words, wide gaps, semicolons and rows end a statement; commas do where every part has a relation of its own. What
begins with a relation goes on with what stands before it. `(q, k) = (a, b)` is two statements, q = a and k = b.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from glassformer.worked.read import names
from glassformer.worked.read.lists import COMMA
from glassformer.worked.read.parse import Parser
from glassformer.worked.read.statement import Link, Relation
from glassformer.worked.read.stream import Misread
from glassformer.worked.read.targets import target_of as target_of  # a chain's other half
from glassformer.worked.read.term import Name, Several, Term, Written, written
from glassformer.worked.read.tokens import lex

MOST_TERMS = 200  # of one chain
MOST_PROBLEMS = 20  # told one by one for one formula
COUNTERS = frozenset("ijklmnrst")


@dataclass(slots=True)
class Draft:
    """A statement in the making. `leading`: it begins with a relation; `dangling`: a relation with nothing after it."""

    line: int
    source: str
    terms: list[Link]
    words: str = ""
    given: tuple[tuple[str, Term], ...] = ()
    crossed: bool = False
    dangling: Relation = ""

    @property
    def leading(self) -> bool:
        return bool(self.terms) and self.terms[0].relation != ""

    def extend(self, other: Draft) -> None:
        """Goes on with `other`, which begins with a relation or follows a dangling one."""
        first, *rest = other.terms
        if self.dangling:
            first = replace(first, relation=self.dangling)
        self.terms += [first, *rest]
        self.source = f"{self.source} {other.source}"
        self.dangling, self.crossed = other.dangling, self.crossed or other.crossed


@dataclass(slots=True)
class Formula:
    """What one formula says: drafts in order, what could not be read, what was assumed, the words after the last."""

    drafts: list[Draft] = field(default_factory=list)
    problems: list[tuple[int, str, str]] = field(default_factory=list)
    notes: list[tuple[int, str, str]] = field(default_factory=list)


def formula(source: str, line: int = 1) -> Formula:
    """Reads one formula; never raises."""
    try:
        tokens = lex(source, line)
    except Misread as error:
        return Formula(problems=[(line, " ".join(source.split()), error.reason)])
    if all(t.kind == "op" or t.text in ("top", "intercal") for t in tokens.items):
        return Formula()  # a sign that is spoken of: the dot of $\\cdot$
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
        """Each row of an aligned environment, or the whole."""
        match = self.parser.tokens.match
        for start, stop in self.parser.split(low, high, "row"):
            inner = self.whole(start, stop)
            if inner is not None and self.items[start].kind == "begin" and self.items[start].text in names.ROWS:
                self.rows(*inner, crossed)
            elif inner is not None and self.items[start].text == "{" and self.has_relation(*inner):
                self.rows(*inner, crossed)  # \\boxed{x = 5}
            elif (
                stop - start > 2 and self.items[start].kind == "cmd" and self.items[start].text in names.STRIKES
                and match.get(start + 1) == stop - 1 and self.has_relation(start + 2, stop - 1)
            ):  # fmt: skip
                self.rows(start + 2, stop - 1, True)
            else:
                self.row(start, stop, crossed)

    def whole(self, low: int, high: int) -> tuple[int, int] | None:
        """The inside of the one bracket or environment that is the whole range."""
        return (low + 1, high - 1) if self.parser.tokens.match.get(low) == high - 1 else None

    def has_relation(self, low: int, high: int) -> bool:
        return len(self.parser.split(low, high, "rel")) > 1

    def row(self, low: int, high: int, crossed: bool) -> None:
        words: list[str] = []
        given: list[tuple[str, Term]] = []
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
        """The ranges between words, semicolons, colons and gaps, each with the words before it."""
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
        """Q: [[1, 2], [3, 4]]"""
        after = self.items[colon + 1] if colon + 1 < high else None
        opens = after is not None and (after.kind == "begin" or (after.kind == "open" and after.text == "["))
        return colon - start < 8 and opens and not self.has_relation(colon, high)

    def complete(self, start: int, index: int, high: int) -> bool:
        """A wide gap separates statements unless a relation stands beside it: Q = … \\quad K = …"""
        after = self.items[index + 1].kind if index + 1 < high else "row"
        return index == start or (self.items[index - 1].kind != "rel" and after != "rel")

    def statements(self, low: int, high: int) -> list[Draft]:
        """Commas: `a = 1, b = 2` is two statements, `x = 1, 2, 3` and `Q, K = …` are one."""
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
        """term (relation term)*; `a = b ⇒ c = d` is two."""
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
        """521,428,992 outside brackets is one number; 1,000 may be two, or a decimal."""
        texts = [self.items[low].text for low, high in parts if high == low + 1]
        tight = all(self.parser.tight_comma(high) for _, high in parts[:-1])
        grouped = len(texts) == len(parts) > 2 and tight and all(len(text) == 3 for text in texts[1:])
        return "".join(texts) if grouped and len(texts[0]) <= 3 and len(texts) < 15 else ""

    def segment(self, low: int, high: int) -> Term:
        """One term of a chain, or several between commas."""
        commas = self.parser.split(low, high, "op", ",")
        inner = self.whole(low, high)
        if len(commas) == 1 and inner is not None and self.items[low].kind == "open" and self.items[low].text == "(":
            rows = self.parser.split(*inner, "op", ";")
            commas = self.parser.split(*inner, "op", ",") if len(rows) == 1 else commas
            low, high = inner if len(commas) > 1 else (low, high)
        commas = [part for part in commas if part[0] < part[1]]
        if len(commas) < 2:
            return self.parser.cell(low, high)
        number = self.thousands(commas)
        if number:
            self.parser.note(low, high, f"read as the number {number}")
            return written(number)
        if len(commas) == 2 and self.parser.tight_comma(commas[0][1]) and inner is None:
            return self.parser.problem(low, high, COMMA)
        return Several(tuple(self.parser.cell(*part) for part in commas))


def _counter(draft: Draft) -> tuple[str, Term] | None:
    """i = 0: what a statement fixes for the ones after it."""
    if len(draft.terms) != 2 or draft.terms[1].relation != "=":
        return None
    name, value = draft.terms[0].term, draft.terms[1].term
    if isinstance(name, Name) and name.name in COUNTERS and not name.indices and isinstance(value, Written):
        return name.name, value
    return None
