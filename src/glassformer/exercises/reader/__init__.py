"""Parsing learners' work: Markdown, LaTeX, plain text, YAML, JSON and CSV → statements with line numbers.

`read` returns the statements of a document; `arithmetic` checks whether its own equations hold.
"""

from __future__ import annotations

from glassformer.exercises.reader.equations import (
    ArithmeticFinding,
    CellCheck,
    Comparison,
    arithmetic,
    compare_sides,
    verdict_of,
)
from glassformer.exercises.reader.reader import read, read_file
from glassformer.exercises.reader.statements import (
    Link,
    Note,
    Reading,
    Statement,
    Target,
    Unread,
    listed,
    parse_formula,
    target_of,
)

__all__ = [
    "ArithmeticFinding",
    "CellCheck",
    "Comparison",
    "Link",
    "Note",
    "Reading",
    "Statement",
    "Target",
    "Unread",
    "arithmetic",
    "compare_sides",
    "listed",
    "parse_formula",
    "read",
    "read_file",
    "target_of",
    "verdict_of",
]
