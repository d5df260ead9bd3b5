"""WER = (changed + added + left out) / words that were said: the edit distance of two sentences, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def edits(said: Sequence[str], meant: Sequence[str]) -> int:
    """The fewest changes, additions and omissions that turn one into the other (Levenshtein 1966)."""
    row = list(range(len(meant) + 1))
    for i, a in enumerate(said, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(meant, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def error_rate(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> float:
    """Of (said, meant) pairs together: words for the word error rate, letters for that of letters."""
    wrong, whole = 0, 0
    for said, meant in pairs:
        wrong, whole = wrong + edits(said, meant), whole + len(meant)
    return wrong / max(1, whole)
