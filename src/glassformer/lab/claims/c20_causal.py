"""S_ts = −∞ for s > t: A is lower triangular if rows are queries, upper if columns are; no output sees later inputs."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend, attend_columns
from glassformer.core.masks import causal
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
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
    after = lambda x: torch.where(M, attend(x, x, x).A, 0.0) @ x  # the mask is applied too late, after the softargmax
    late = receptive_field(after, X)
    masked = torch.where(M, full, 0.0)
    return {
        "rows": before.A.tolist(),
        "columns": columns.tolist(),
        "above_in_rows": largest(before.A.triu(1)),
        "above_in_columns": largest(columns.triu(1)),
        "below_in_columns": largest(columns.tril(-1)),
        "later": int(field.depends.triu(1).sum()),
        "masked_after": largest(masked @ V - before.H),
        "sum_after": float(masked.sum(-1).min()),
        "late_masked_after": int(late.depends.triu(1).sum()),
        "renormalised": largest(masked / masked.sum(-1, keepdim=True) - before.A),
        "counterexample": _example(),
    }


def _example() -> dict[str, object] | None:
    """Return an exercise with two tokens as columns, where A has its zero below the diagonal."""
    one = torch.ones(1, 2, dtype=torch.float64)
    A = attend_columns(one, one, one, mask=causal(2).mT).A
    if largest(A.tril(-1)) > NOTHING or largest(A.triu(1)) <= NOTHING:
        return None
    text = "Tokens are columns, and so are weights. On which side of the diagonal of A are the zeros?"
    parts = {name: [[1, 1]] for name in "QKV"}
    how = {"layout": "columns", "scale": "none", "mask": "causal"}
    return {"title": "Causal, in columns", "text": text, **parts, **how}


def judge(result: Result) -> tuple[Kind, str]:
    if result["above_in_rows"] > NOTHING or result["later"]:
        return "fails", (
            f"with queries as rows, A has a weight of {result['above_in_rows']:.2g} above its diagonal, and in "
            f"{result['later']} pairs an output depends on a later input"
        )
    if result["below_in_columns"] > NOTHING:
        below = result["below_in_columns"]
        return "fails", f"with queries as columns, A has a weight of {below:.2g} below its diagonal, on a later key"
    if result["masked_after"] <= NOTHING:
        return "fails", "masking after the softargmax gives the same output"
    late = result["late_masked_after"]
    rest = (
        f"no output depends on a later input. With the mask applied after the softargmax, H is off by "
        f"{result['masked_after']:.2g}. {NOT_JUDGED}: with that mask, an output depends on a later input in {late} "
        f"pairs, through the denominator; if each row is then divided by its sum, A differs by at most "
        f"{result['renormalised']:.1g} from A with the mask applied before"
    )
    if result["above_in_columns"] > NOTHING:
        return "holds when", (
            f"rows are queries; if columns are (A = softargmax of KᵀQ), A is upper triangular. In a layer with queries "
            f"as rows, {rest}"
        )
    return "holds", rest


def draw(result: Result) -> Figure:
    both = {"rows are queries": result["rows"], "columns are queries": result["columns"]}
    return plots.maps(both, title="A under a causal mask")


CLAIM = Experiment(
    number=20,
    name="the causal mask",
    statement="Under a causal mask A is lower triangular, no output depends on a later input, and masking after the "
    "softargmax instead of before it is not equivalent.",
    formula="A_{ts} = 0 for s > t",
    measured="The largest weights above and below the diagonal in both layouts; which outputs change when each input "
    "does; and how the output changes if the mask is applied after the softargmax.",
    rule="“fails” if there is a weight above the diagonal in the row layout or below it in the column layout, if an "
    "output depends on a later input, or if masking after the softargmax gives the same output; “holds when rows are "
    "queries” if the column layout has weights above the diagonal; otherwise “holds”.",
    falsified_by="A weight above the diagonal in the row layout, an output that depends on a later input, or masking "
    "after the softargmax that gives the same output.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 4},
)
