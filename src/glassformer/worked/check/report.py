"""What a check says, as data: a score, cells with verdicts, slips with reasons, and what could not be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from glassformer.worked.check.local import Slip
from glassformer.worked.check.own import shown
from glassformer.worked.check.verdict import Judged, Verdict
from glassformer.worked.read import ArithmeticFinding, Note, Unread, label

VERDICTS: tuple[Verdict, ...] = ("right", "follows", "rounded", "wrong", "missing")


@dataclass(frozen=True, slots=True)
class Mark:
    """One cell as it is reported: rows and columns from 1."""

    symbol: str
    row: int
    column: int
    given: str | None
    expected: str
    verdict: Verdict
    line: int | None = None
    follows: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol, "row": self.row, "column": self.column, "given": self.given,
            "expected": self.expected, "verdict": self.verdict, "line": self.line,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """A checked document. Without an exercise `score` is None and only its own arithmetic is judged."""

    name: str
    title: str
    score: float | None
    cells: tuple[Mark, ...]
    slips: tuple[Slip, ...]
    unread: tuple[Unread, ...]
    notes: tuple[Note, ...]
    struck: tuple[Unread, ...]
    arithmetic: tuple[ArithmeticFinding, ...]
    skipped: tuple[str, ...] = ()

    def count(self) -> Counter[str]:
        return Counter(cell.verdict for cell in self.cells)

    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.symbol for cell in self.cells))

    def to_json(self) -> dict[str, Any]:
        """For an autograder."""
        return {
            "name": self.name,
            "exercise": self.title,
            "score": None if self.score is None else round(self.score, 6),
            "cells": [cell.to_json() for cell in self.cells],
            "slips": [
                {"name": slip.name, "where": slip.where, "why": slip.why,
                 "cells": [[symbol, i + 1, j + 1] for symbol, i, j in sorted(slip.cells)]}
                for slip in self.slips
            ],
            "unread": [_said(item.line, item.source, item.reason) for item in self.unread],
            "notes": [_said(item.line, item.source, item.assumption) for item in self.notes],
            "struck": [_said(item.line, item.source, item.reason) for item in self.struck],
            "arithmetic": [_finding(item) for item in self.arithmetic],
        }  # fmt: skip


def mark(cell: Judged) -> Mark:
    own = cell.own
    follows = shown(cell.follow, own) if cell.verdict in ("follows", "wrong", "rounded") else ""
    expected = shown(cell.exact, own)
    return Mark(
        cell.symbol, cell.row + 1, cell.column + 1, own.text if own is not None else None, expected, cell.verdict,
        own.line if own is not None else None, follows if follows != expected else "",
    )  # fmt: skip


def _said(line: int, source: str, reason: str) -> dict[str, Any]:
    return {"line": line, "source": source, "reason": reason}


def _finding(item: ArithmeticFinding) -> dict[str, Any]:
    return {
        "line": item.line, "left": label(item.left)[:400], "relation": item.relation, "right": label(item.right)[:400],
        "verdict": item.verdict, "reason": item.reason,
        "cells": [
            {"row": c.row, "column": c.column, "given": c.given, "expected": c.expected, "verdict": c.verdict}
            for c in item.cells
        ],
    }  # fmt: skip
