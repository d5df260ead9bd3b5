"""Reading learners' working: Markdown, LaTeX, plain text, YAML, JSON and CSV → statements with their lines.

`read` gives what a document says, `evaluate` what a term is worth as intervals, `arithmetic` whether the document's own
equations hold.
"""

from __future__ import annotations

from glassformer.worked.read.arithmetic import ArithmeticFinding, arithmetic
from glassformer.worked.read.balls import Grid, Mismatch, Unevaluated
from glassformer.worked.read.chain import formula
from glassformer.worked.read.compare import Cell, Comparison, compare, verdict_of
from glassformer.worked.read.evaluate import evaluate
from glassformer.worked.read.label import label
from glassformer.worked.read.reader import read, read_file
from glassformer.worked.read.statement import Link, Note, Reading, Statement, Target, Unread
from glassformer.worked.read.targets import target_of

__all__ = [
    "ArithmeticFinding",
    "Cell",
    "Comparison",
    "Grid",
    "Link",
    "Mismatch",
    "Note",
    "Reading",
    "Statement",
    "Target",
    "Unevaluated",
    "Unread",
    "arithmetic",
    "compare",
    "evaluate",
    "formula",
    "label",
    "read",
    "read_file",
    "target_of",
    "verdict_of",
]
