"""ΔH_j ≈ (α − 1) β (q_j·k_i) A_ji (v_i − h_j): the change is linear in α − 1, with an error of second order."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, random_qkv
from glassformer.lens import Layer, scale_key
from glassformer.lens.perturb import fitted_exponent

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
    order = fitted_exponent(result["sizes"][:6], result["error"][:6])
    share = [e / m for e, m in zip(result["error"], result["measured"], strict=True)]
    far = next((size for size, s in zip(result["sizes"], share, strict=True) if s > 0.1), None)
    tenth = (
        "stays below a tenth of the change" if far is None else f"exceeds a tenth of the change from α − 1 = {far:g} on"
    )
    if 1.8 < order < 2.2:
        return "holds", f"the error of the prediction falls as (α − 1)^{order:.2f}. {NOT_JUDGED}: it {tenth}"
    return "fails", f"the error of the prediction falls as (α − 1)^{order:.2f}, not as (α − 1)²"


def draw(result: Result) -> Figure:
    lines = {"change of H": result["measured"], "error of the prediction": result["error"]}
    title = "the change of H and its prediction"
    return plots.curves(result["sizes"], lines, across="α − 1", up="largest entry", title=title, log="xy")


CLAIM = Experiment(
    number=8,
    name="small scalings",
    statement="For small α − 1, the change of H is (α − 1)·Q k_iᵀ times the derivative of softargmax, times V.",
    formula="ΔH ≈ (α − 1) Q k_i^T · ∂softargmax_β · V",
    measured="The change of H when one key is scaled by α, and the error of the first-order prediction, for α − 1 "
    "from 2⁻¹⁰ to 1.",
    rule="“holds” if the error of the prediction falls as a power of α − 1 between 1.8 and 2.2, fitted to the six "
    "smallest values; otherwise “fails”.",
    falsified_by="A prediction whose error does not fall as the square of α − 1.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"keys": 2},
)
