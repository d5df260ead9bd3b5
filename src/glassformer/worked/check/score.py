"""Which cells are expected, and the score.

Expected are the cells a learner wrote, and of the essential steps (Q, K, V, S, A, H, O; after them R, the normalised
tokens, the feed-forward output; W, total or n for the other kinds of exercise) those that are `missing`: not written,
while nothing later that depends on them is written either for the same token. So a skipped step is not missing if the
working goes on from it, and steps between (QKᵀ, E, Z, C, means …) never are. An output that is the same matrix under
two names (O = H without W_O) is expected once.

score = (right + follows + ½ rounded) / expected
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glassformer.worked.check.verdict import Judged, Judgement, Verdict
from glassformer.worked.plan import Plan

POINTS: dict[Verdict, float] = {"right": 1.0, "follows": 1.0, "rounded": 0.5, "wrong": 0.0, "missing": 0.0}
ESSENTIAL = ("X", "Q", "K", "V", "S", "A", "H", "O", "R", "N", "L", "F", "RF", "NF", "LF")
# steps whose lines belong to the keys: any later step uses all of them
BY_KEY = ("K", "V", "PE")


def essential(plan: Plan) -> tuple[str, ...]:
    """The steps that a complete working shows."""
    if "T" in plan or "total" in plan:
        return (plan.output,)
    if "nh" in plan and plan.output in ("n", "P", "X"):
        return (plan.output,)
    return tuple(s for s in plan.symbols if base(s) in ESSENTIAL)


def base(symbol: str) -> str:
    return symbol.rstrip("0123456789") if not symbol.startswith("F1") else symbol


def missing(plan: Plan, judgement: Judgement) -> tuple[Judged, ...]:
    """Cells that are not found, and should be."""
    written: dict[str, set[tuple[int, int]]] = {}
    for cell in judgement.cells:
        written.setdefault(cell.symbol, set()).add((cell.row, cell.column))
    found: list[Judged] = []
    for symbol in essential(plan):
        if _copied(plan, symbol) in written or (symbol in _copies(plan) and symbol not in written):
            continue  # said of the other name
        later = [name for name in plan.after(symbol) if name in written]
        exact = judgement.exact[symbol]
        for i, j, value in exact.cells():
            if (i, j) not in written.get(symbol, ()) and not _reached(plan, symbol, (i, j), later, written):
                found.append(Judged(symbol, i, j, None, value, value, "missing"))
    return tuple(found)


def _copied(plan: Plan, symbol: str) -> str:
    """What O is a copy of, if it is one."""
    operation = plan[symbol]
    return operation.inputs[0] if operation.op == "copy" else ""


def _copies(plan: Plan) -> set[str]:
    """What has a copy among the essential steps."""
    return {op.inputs[0] for op in plan.operations if op.op == "copy" and base(op.symbol) in ESSENTIAL}


def _reached(
    plan: Plan, symbol: str, at: tuple[int, int], later: Sequence[str], written: dict[str, set[tuple[int, int]]]
) -> bool:
    """Whether a later step is written for the same token."""
    axis = 0 if plan.axis == "rows" else 1
    if base(symbol) in BY_KEY:
        return bool(later)
    return any(place[axis] == at[axis] for name in later for place in written[name])


def score(cells: Iterable[Judged]) -> float:
    """(right + follows + ½ rounded) / expected; 0 if nothing is expected."""
    points = [POINTS[cell.verdict] for cell in cells]
    return sum(points) / len(points) if points else 0.0
