"""What a document says: chains `target = term = term ≈ term` with their lines, and what could not be read, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from glassformer.worked.read.term import Index, Name, Term, is_numeric, is_struck

Relation: TypeAlias = Literal["", "=", "≈", "→", "<", ">", "≤", "≥", "≠", "∈", "∝"]
Place: TypeAlias = Literal["display", "inline", "plain", "prose", "table", "answer"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a chain is about. `w_{1,2}`: name w, indices (1, 2). `QK^\\top`: name "QK^T", no indices.

    `w_{12}` has the one index 12: only who knows how many axes w has may split it (`digits`).
    """

    name: str
    indices: tuple[Index, ...]
    upper: tuple[Index, ...]
    term: Term

    @property
    def label(self) -> str:
        """One line of plain text: w_{1,2}, W_1^Q, QK^T."""
        from glassformer.worked.read.label import label

        return label(self.term)

    @property
    def is_name(self) -> bool:
        """A single quantity, not an expression such as QK^T."""
        return isinstance(self.term, Name)

    @property
    def digits(self) -> tuple[Index, ...]:
        """The indices with `12` taken as 1, 2: what w_{12} means for a matrix of fewer than ten rows and columns."""
        split = (tuple(map(int, str(i))) if isinstance(i, int) else (i,) for i in self.indices)
        return tuple(part for parts in split for part in parts)


@dataclass(frozen=True, slots=True)
class Link:
    """One term of a chain and how it is joined to what stands before it ("" if nothing does)."""

    line: int
    relation: Relation
    term: Term

    @property
    def struck(self) -> bool:
        return is_struck(self.term)

    @property
    def numeric(self) -> bool:
        return is_numeric(self.term)


@dataclass(frozen=True, slots=True)
class Statement:
    """target = terms[0] = terms[1] ≈ …

    `words` is the prose directly before it, `context` the latest prose before it (words, unless there are none),
    `given` what the same formula fixes first, as i = 0 in `i = 0 \\text{ scores to } j \\rightarrow […]`.
    """

    line: int
    source: str
    target: Target | None
    terms: tuple[Link, ...]
    words: str = ""
    context: str = ""
    given: tuple[tuple[str, Term], ...] = ()
    place: Place = "display"
    crossed: bool = False

    @property
    def struck(self) -> bool:
        """Whether the learner crossed out the whole of it or any part."""
        return self.crossed or any(link.struck for link in self.terms) or (
            self.target is not None and is_struck(self.target.term)
        )

    @property
    def numeric(self) -> tuple[Link, ...]:
        """The terms that stand for numbers by themselves."""
        return tuple(link for link in self.terms if link.numeric)


@dataclass(frozen=True, slots=True)
class Unread:
    """Something mathematical that could not be read or placed, and why."""

    line: int
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was read with an assumption, which is stated."""

    line: int
    source: str
    assumption: str


@dataclass(frozen=True, slots=True)
class Reading:
    """All a document says, in the order of its lines."""

    name: str
    kind: str
    statements: tuple[Statement, ...]
    unread: tuple[Unread, ...]
    notes: tuple[Note, ...] = ()
