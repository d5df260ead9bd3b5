"""New exercises at will: made from a seed, as sheets with keys, or one step at a time."""

from __future__ import annotations

from glassformer.worked.practice.make import LEVELS, TOPICS, Wanted, make, sheets
from glassformer.worked.practice.sheet import dump, key, sheet

__all__ = ["LEVELS", "TOPICS", "Wanted", "dump", "key", "make", "sheet", "sheets"]
