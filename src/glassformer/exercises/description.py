"""Descriptions of attention maps in words: which token attends to which, how sharply, and where there are ties."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from glassformer.exercises.numbers import Exact
from glassformer.exercises.steps import Step


def describe(step: Step) -> list[str]:
    """Return one sentence per token of a head's attention map; an empty list for any other step."""
    if step.operation.op != "softargmax":
        return []
    rows = step.value if step.operation.params["axis"] == "rows" else step.value.T
    return [f"Token {t} {describe_row(row)}" for t, row in enumerate(rows, 1)]


def describe_row(row: Sequence[Exact]) -> str:
    """Describe one token's attention weights: the largest, ties, and the entropy in bits."""
    seen = [weight for weight in row if not weight.is_zero()]  # exact test: as a float, e⁻¹⁰⁰⁰ would be 0
    bits = entropy([float(weight) for weight in row])
    top = max(row)
    best = [s for s, weight in enumerate(row, 1) if weight == top]
    if len(seen) == 1:
        return f"attends to token {best[0]} alone: it sees no other."
    sharp = f"entropy {bits:.2f} of at most {log2(len(seen)):.2f} bits"
    if len(best) == len(seen):
        return f"attends evenly to all {len(seen)} tokens it sees ({_percent(top)} each; {sharp})."
    if len(best) > 1:
        return f"attends most to tokens {_and(best)}, which tie at {_percent(top)} each ({sharp})."
    return f"attends most to token {best[0]}, {_percent(top)}: {_how(bits / log2(len(seen)))} ({sharp})."


def entropy(weights: Sequence[float]) -> float:
    """−Σ a log₂ a"""
    return -sum(a * log2(a) for a in weights if a > 0) + 0.0


def _percent(weight: Exact) -> str:
    return f"{(weight * 100).decimal(1)} %"


def _how(share: float) -> str:
    if share < 0.25:
        return "sharp, nearly hard attention"
    return "a clear choice" if share < 0.75 else "spread out, nearly soft attention"


def _and(items: Sequence[int]) -> str:
    return ", ".join(map(str, items[:-1])) + f" and {items[-1]}"
