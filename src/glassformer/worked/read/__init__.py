"""Reading learners' working: Markdown, LaTeX, plain text, YAML, JSON and CSV → statements with their lines."""

from __future__ import annotations

from glassformer.worked.read.label import label
from glassformer.worked.read.reader import read, read_file
from glassformer.worked.read.statement import Link, Note, Reading, Statement, Target, Unread

__all__ = ["Link", "Note", "Reading", "Statement", "Target", "Unread", "label", "read", "read_file"]
