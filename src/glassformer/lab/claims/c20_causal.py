"""S_ts = −∞ for s > t: A is lower triangular where rows are queries, upper where columns are; nothing later is seen."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend, attend_columns
from glassformer.core.masks import causal
from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, largest, normal
from glassformer.lens import receptive_field
from glassformer.nn import MultiHeadAttention, View, heads, initialise

NOTHING = 1e-12


def measure(seed: int, *, tokens: int = 6, width: int = 4) -> Result:
    random = generator(seed)
    Q, K, V = (normal(random, tokens, width) for _ in range(3))
    M = causal(tokens)
    before = attend(Q, K, V, causal=True)
    full = attend(Q, K, V).A
    columns = attend_columns(Q.mT, K.mT, V.mT, mask=M.mT).A
    layer = MultiHeadAttention(heads(width, 1)).double()
    initialise(layer, seed)
    X = normal(random, 1, tokens, width)
    field = receptive_field(lambda x: layer(x, None, View(causal=True)), X)
    after = lambda x: torch.where(M, attend(x, x, x).A, 0.0) @ x  # masked when it is too late
    late = receptive_field(after, X)
    masked = torch.where(M, full, 0.0)
    return {
        "rows": before.A.tolist(),
        "columns": columns.tolist(),
        "above_in_rows": largest(before.A.triu(1)),
        "above_in_columns": largest(columns.triu(1)),
        "hears_later": int(field.depends.triu(1).sum()),
        "masked_after": largest(masked @ V - before.H),
        "sum_after": float(masked.sum(-1).min()),
        "hears_later_masked_after": int(late.depends.triu(1).sum()),
        "renormalised": largest(masked / masked.sum(-1, keepdim=True) - before.A),
        "counterexample": _example(),
    }


def _example() -> dict[str, object] | None:
    """Two tokens as columns: A has its zero below the diagonal."""
    one = torch.ones(1, 2, dtype=torch.float64)
    A = attend_columns(one, one, one, mask=causal(2).mT).A
    if largest(A.tril(-1)) > NOTHING or largest(A.triu(1)) <= NOTHING:
        return None
    text = "Tokens are columns, and so are weights. On which side of the diagonal of A are the zeros?"
    parts = {name: [[1, 1]] for name in "QKV"}
    how = {"layout": "columns", "scale": "none", "mask": "causal"}
    return {"title": "Causal, in columns", "text": text, **parts, **how}


def judge(result: Result) -> tuple[Kind, str]:
    if result["above_in_rows"] > NOTHING or result["hears_later"]:
        return "fails", (
            f"A has {result['above_in_rows']:.2g} above its diagonal where rows are queries, and "
            f"{result['hears_later']} outputs hear a later input"
        )
    if result["masked_after"] <= NOTHING:
        return "fails", "masking after the softargmax gives the same"
    rest = (
        f"no output hears a later input; masked after the softargmax, rows sum to {result['sum_after']:.2g} at "
        "least, H is "
        f"off by {result['masked_after']:.2g}, and {result['hears_later_masked_after']} pairs hear later inputs "
        "through the "
        f"denominator (divided by that sum it is the same, to {result['renormalised']:.1g})"
    )
    if result["above_in_columns"] > NOTHING:
        return "holds when", (
            f"rows are queries; where columns are (A = softargmax of KᵀQ) A is upper triangular. In both, {rest}"
        )
    return "holds", rest


def draw(result: Result) -> Figure:
    both = {"rows are queries": result["rows"], "columns are queries": result["columns"]}
    return pictures.maps(both, title="A under a causal mask")


CLAIM = Experiment(
    number=20,
    name="the causal mask",
    statement="Under a causal mask A is lower triangular; no output sees a later input; masking after the softargmax "
    "instead of before it is not the same.",
    formula="A_{ts} = 0 for s > t",
    measured="The largest weight above the diagonal in both layouts; which outputs change when each input "
    "does; and what "
    "masking after the softargmax changes.",
    rule="fails if a weight lies above the diagonal in the row layout, an output hears a later input, or masking after "
    "is the same; holds when rows are queries if the column layout has weights above; else holds.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"tokens": "how many tokens", "width": "how wide they are"},
    least={"tokens": 4},
)
