"""What an attention map says, in words: who attends to whom, how sharply, and where there are ties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

from glassformer.worked.numbers import Exact
from glassformer.worked.solve import Solution, Step


def describe(solution: Solution) -> dict[str, list[str]]:
    """A sentence for each token of each head's A."""
    return {step.symbol: list(_sentences(step)) for step in solution.steps if step.operation.op == "softargmax"}


def _sentences(step: Step) -> Iterator[str]:
    rows = step.value if step.operation.params["axis"] == "rows" else step.value.T
    for t, row in enumerate(rows, 1):
        yield f"Token {t} {say(row)}"


def say(row: Sequence[Exact]) -> str:
    """What one token's weights say: their largest, ties, and the entropy in bits."""
    seen = [weight for weight in row if not weight.is_zero()]  # exactly: a float of e⁻¹⁰⁰⁰ would be 0
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
