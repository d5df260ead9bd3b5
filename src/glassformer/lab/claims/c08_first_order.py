"""ΔH ≈ V J (α − 1) β k_iᵀQ: the change is linear in α − 1, with an error of second order."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, random_qkv, slope
from glassformer.lens import Layer, scale_key

SIZES = [2.0**-k for k in range(10, -1, -1)]


def measure(seed: int, *, queries: int = 8, keys: int = 6, width: int = 4) -> Result:
    layer = Layer(*random_qkv(generator(seed), queries, keys, width), width**-0.5)
    changes = [scale_key(layer, 0, 1 + size) for size in SIZES]
    return {
        "sizes": SIZES,
        "measured": [largest(change.measured_H) for change in changes],
        "error": [largest(change.measured_H - change.predicted_H) for change in changes],
    }


def judge(result: Result) -> tuple[Kind, str]:
    order = slope(result["sizes"][:6], result["error"][:6])
    share = [e / m for e, m in zip(result["error"], result["measured"], strict=True)]
    far = next((size for size, s in zip(result["sizes"], share, strict=True) if s > 0.1), None)
    tenth = (
        "stays below a tenth of the change" if far is None else f"exceeds a tenth of the change from α − 1 = {far:g}"
    )
    if 1.8 < order < 2.2:
        return "holds", f"the error falls as (α − 1)^{order:.2f}; it {tenth}"
    return "fails", f"the error falls as (α − 1)^{order:.2f}, not as its square"


def draw(result: Result) -> Figure:
    lines = {"change of H": result["measured"], "error of the prediction": result["error"]}
    return plots.curves(
        result["sizes"], lines, across="α − 1", up="largest", title="the change of H and its prediction", log="xy"
    )


CLAIM = Experiment(
    number=8,
    name="small scalings",
    statement="For small α − 1 the change of H is the softargmax derivative times (α − 1)·k_iᵀQ.",
    formula="ΔH ≈ V · ∂softargmax_β · (α − 1) k_i^T Q",
    measured="The change of H when one key is scaled by α, and how far the prediction is off, for α − 1 = 2⁻¹⁰ … 1.",
    rule="holds if the error falls as α − 1 to a power between 1.8 and 2.2 (over the six smallest); else fails.",
    falsified_by="An error of the prediction that does not fall as the square of α − 1.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"queries": "number of queries", "keys": "number of keys", "width": "width (d)"},
    least={"keys": 2},
)
