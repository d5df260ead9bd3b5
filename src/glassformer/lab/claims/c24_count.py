"""4·N·D² + 2·N²·D: four projections, the scores, and the weighted sums."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.lab import plots
from glassformer.lab.counting import multiplications
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.nn import MultiHeadAttention, heads, initialise


def measure(seed: int, *, cases: int = 6) -> Result:
    random = generator(seed)
    rows = []
    for _ in range(cases):
        h, each, N = (int(torch.randint(low, high, (), generator=random)) for low, high in ((1, 5), (2, 17), (2, 65)))
        D = h * each
        layer = MultiHeadAttention(heads(D, h))
        initialise(layer, seed)
        counted = multiplications(layer, torch.randn(1, N, D, generator=random))
        rows.append({"N": N, "D": D, "h": h, "counted": counted, "formula": 4 * N * D * D + 2 * N * N * D})
    return {"cases": rows}


def judge(result: Result) -> tuple[Kind, str]:
    wrong = [row for row in result["cases"] if row["counted"] != row["formula"]]
    if wrong:
        first = wrong[0]
        sizes = f"N = {first['N']}, D = {first['D']} and {first['h']} heads"
        return "fails", f"{sizes} take {first['counted']:,} multiplications; the formula gives {first['formula']:,}"
    last = result["cases"][-1]
    return "holds", (
        f"exactly, for all {len(result['cases'])} sizes: N = {last['N']}, D = {last['D']} and {last['h']} heads take "
        f"{last['counted']:,} multiplications"
    )


def draw(result: Result) -> Figure:
    rows = sorted(result["cases"], key=lambda row: row["formula"])
    lines = {"counted": [row["counted"] for row in rows]}
    x = [row["formula"] for row in rows]
    return plots.curves(x, lines, across="4ND² + 2N²D", up="counted", title="multiplications", log="xy")


CLAIM = Experiment(
    number=24,
    name="4ND² + 2N²D",
    statement="Multi-head self-attention costs 4·N·D² + 2·N²·D multiplications.",
    formula="4 N D^2 + 2 N^2 D",
    measured="The multiplications of matrix products that torch counts while layers of random sizes run.",
    rule="“holds” if every count equals the formula exactly; otherwise “fails”.",
    falsified_by="A single layer whose counted multiplications differ from the formula.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"cases": "number of random sizes"},
)
