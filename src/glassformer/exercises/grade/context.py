"""Context from the prose around a formula: which head, which rows, and whether indices start at 0."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from glassformer.exercises.expression import Name, Number, walk
from glassformer.exercises.grade.vocabulary import topics
from glassformer.exercises.reader import Statement

_COUNT = {"one": 1, "two": 2, "three": 3, "four": 4, "first": 1, "second": 2, "third": 3, "fourth": 4}
# OCR misreads "head" as "need"
_HEAD = re.compile(
    r"(?:\b(?:(?:head|need)s?|kopf|tête|testa|cabeza)\s*(?:no\.?|nr\.?|number|#)?\s*(?P<number>\d+|one|two|three|four)\b"
    r"|\b(?P<ordinal>first|second|third|fourth|1st|2nd|3rd|4th)\s+(?:attention\s+)?(?:head|need))"
)
_ASIDE = re.compile(r"(?:similar(?:ly)?(?: to)?|same as|as (?:in|for|with)|like(?: for)?|the)\s*$")
_ROWS = re.compile(
    r"\b(?:rows?|(?:for|of)\s+(?:tokens?|quer(?:y|ies)|positions?)|(?:tokens?|quer(?:y|ies)|positions?)(?=\s+\d+\s*(?:[:=→]|gets\b|receives\b|becomes\b)))\s+"
    r"(\d+(?:\s*(?:,|and|&)\s*\d+)*)(?!\d|\s*[-–]\s*\d)",
    re.I,
)
_ROW_LABEL = re.compile(r"(?<![^\W_])(?:q|query|token)[ _]?\{?(\d{1,2})\}?\s*:\s*$", re.I)  # q1: (0.2, 0.8)


@dataclass(slots=True)
class Context:
    """The position of a statement in the work; updated by the prose."""

    heads: int
    head: int | None = None
    rows: tuple[int, ...] = ()
    topics: tuple[str, ...] = field(default=())

    def update(self, statement: Statement) -> None:
        """Update the context from the prose before a statement."""
        words = statement.words
        if not words or not any(char.isalpha() for char in words):
            return
        self.head = heads_in(words, self.heads) or self.head
        found = topics(words)
        rows = rows_in(words)
        if rows:
            self.rows = rows
        elif set(found) & {"H", "O", "C"}:  # the rows were those of the weights
            self.rows = ()
        self.topics = found or self.topics


def heads_in(words: str, heads: int) -> int | None:
    """Return the head that the prose moves on to, not one that it only compares with."""
    low = words.lower()
    for match in reversed(list(_HEAD.finditer(low))):
        if _ASIDE.search(low[: match.start()]) and match["number"]:
            continue
        text = match["number"] or match["ordinal"]
        number = _COUNT.get(text) or int(re.sub(r"\D", "", text) or 0)
        if 1 <= number <= heads:
            return number
    return None


def rows_in(words: str) -> tuple[int, ...]:
    """Return the rows that the prose names last, (1, 4) for "For row 1 and 4", not those that it only compares with."""
    label = _ROW_LABEL.search(words)
    if label is not None and not _ASIDE.search(words[: label.start()].lower()):
        return (int(label[1]),)
    every = list(_ROWS.finditer(words))
    found = [match for match in every if not _ASIDE.search(words[: match.start()].lower())] or every
    return tuple(int(number) for number in re.findall(r"\d+", found[-1][1])) if found else ()


def counted_from_zero(statements: Iterable[Statement]) -> frozenset[str]:
    """Return names with an index 0 anywhere: all their indices count from 0. A counter `i = 0` is "i ="."""
    found: set[str] = set()
    for statement in statements:
        target = statement.target
        if target is not None and (0 in target.indices or "row 0" in target.indices):
            found.add(target.name)
        if target is not None:
            found |= {part.name for part in walk(target.term) if isinstance(part, Name) and 0 in part.indices}
        found |= {f"{name} =" for name, term in statement.given if isinstance(term, Number) and term.value == 0}
    return frozenset(found)
