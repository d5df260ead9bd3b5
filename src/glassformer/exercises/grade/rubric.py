"""Expected cells and the score.

Expected are the cells a learner wrote, plus the `missing` cells of the essential steps (Q, K, V, S, A, H, O; then R,
the normalized tokens, the feed-forward output; W, total or n for other kinds of exercise): those not written, while
no later step that depends on them is written for the same token either. So a skipped step is not missing if the work
continues from it, and intermediate steps (QKᵀ, E, Z, C, means …) never are. An output that is the same matrix under
two names (O = H without W_O) is expected once.

score = (right + follows + ½ rounded) / expected
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glassformer.exercises.grade.verdict import Compared, Verdict, Verdicts
from glassformer.exercises.plan import Plan

POINTS: dict[Verdict, float] = {"right": 1.0, "follows": 1.0, "rounded": 0.5, "wrong": 0.0, "missing": 0.0}
ESSENTIAL = ("X", "Q", "K", "V", "S", "A", "H", "O", "R", "N", "L", "F", "RF", "NF", "LF")
# steps whose lines belong to the keys: any later step uses all of them
BY_KEY = ("K", "V", "PE")


def essential(plan: Plan) -> tuple[str, ...]:
    """Return the steps that complete work shows."""
    if "T" in plan or "total" in plan:
        return (plan.output,)
    if "nh" in plan and plan.output in ("n", "P", "X"):
        return (plan.output,)
    return tuple(s for s in plan.symbols if base(s) in ESSENTIAL)


def base(symbol: str) -> str:
    return symbol.rstrip("0123456789") if not symbol.startswith("F1") else symbol


def missing(plan: Plan, verdicts: Verdicts) -> tuple[Compared, ...]:
    """Return the expected cells that were not found."""
    written: dict[str, set[tuple[int, int]]] = {}
    for cell in verdicts.cells:
        written.setdefault(cell.symbol, set()).add((cell.row, cell.column))
    found: list[Compared] = []
    for symbol in essential(plan):
        if _copied(plan, symbol) in written or (symbol in _copies(plan) and symbol not in written):
            continue  # reported for the other name
        later = [name for name in plan.after(symbol) if name in written]
        exact = verdicts.exact[symbol]
        for i, j, value in exact.cells():
            if (i, j) not in written.get(symbol, ()) and not _reached(plan, symbol, (i, j), later, written):
                found.append(Compared(symbol, i, j, None, value, value, "missing"))
    return tuple(found)


def _copied(plan: Plan, symbol: str) -> str:
    """Return the symbol that O is a copy of, if any."""
    operation = plan[symbol]
    return operation.inputs[0] if operation.op == "copy" else ""


def _copies(plan: Plan) -> set[str]:
    """Return the symbols that have a copy among the essential steps."""
    return {op.inputs[0] for op in plan.operations if op.op == "copy" and base(op.symbol) in ESSENTIAL}


def _reached(
    plan: Plan, symbol: str, at: tuple[int, int], later: Sequence[str], written: dict[str, set[tuple[int, int]]]
) -> bool:
    """Return whether a later step is written for the same token."""
    axis = 0 if plan.axis == "rows" else 1
    if base(symbol) in BY_KEY:
        return bool(later)
    return any(place[axis] == at[axis] for name in later for place in written[name])


def score(cells: Iterable[Compared]) -> float:
    """(right + follows + ½ rounded) / expected; 0 if nothing is expected."""
    points = [POINTS[cell.verdict] for cell in cells]
    return sum(points) / len(points) if points else 0.0
