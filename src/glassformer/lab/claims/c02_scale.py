"""Var(q·k) = d, Var(q·k / √d) = 1: why scores are divided by √d, and what that assumes."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core import scores, softargmax
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, normal, slope
from glassformer.lens.sensitivity import jacobian

WIDTHS = [4, 16, 64, 256, 1024]
NEAR = 0.25


def measure(seed: int, *, queries: int = 128, keys: int = 64) -> Result:
    random = generator(seed)
    raw, scaled, plain, calm = [], [], [], []
    for d in WIDTHS:
        Q, K = normal(random, queries, d), normal(random, keys, d)
        S1, S = scores(Q, K, beta=1.0), scores(Q, K)
        raw.append(float(S1.var()) / d)
        scaled.append(float(S.var()))
        plain.append(_gradient(S1[:, :16]))
        calm.append(_gradient(S[:, :16]))
    d = WIDTHS[2]
    signs = [normal(random, n, 1).sign().expand(n, d) for n in (queries, keys)]  # unit variance, all entries equal
    means = [normal(random, n, d) + 1 for n in (queries, keys)]  # unit variance, mean 1
    return {
        "widths": WIDTHS,
        "raw": raw,
        "scaled": scaled,
        "gradient_raw": plain,
        "gradient_scaled": calm,
        "alike": float(scores(*signs).var()),
        "mean_one": float(scores(*means).var()),
        "counterexample": _smallest(),
    }


def _gradient(S: Tensor) -> float:
    """Return the mean norm of J = ∂A/∂S."""
    return float(jacobian(softargmax(S)).flatten(-2).norm(dim=-1).mean())


def _smallest() -> dict[str, object] | None:
    """Find the smallest width at which ±(1, …, 1), each entry of variance 1, has scaled scores of another variance."""
    for d in range(1, 9):
        Q = [[1] * d, [-1] * d]
        S = scores(torch.tensor(Q, dtype=torch.float64), torch.tensor(Q, dtype=torch.float64))
        if abs(float(S.var(correction=0)) - 1) > 1e-9:
            text = "Every entry of Q and K is 1 or −1, equally often: variance 1. What is the variance of S?"
            return exercise("Entries that are all alike", text, (Q, Q, [[1], [0]]), scale="1/sqrt(dk)")
    return None


def judge(result: Result) -> tuple[Kind, str]:
    variance = max(abs(v - 1) for v in (*result["raw"], *result["scaled"]))
    falls = slope(result["widths"], result["gradient_raw"])
    level = slope(result["widths"], result["gradient_scaled"])
    if variance > NEAR or falls > -NEAR or abs(level) > NEAR / 2:
        return "fails", (
            f"the variances are up to {variance:.2g} from d and 1; ‖J‖ goes as d^{falls:.2f} without the scale and as "
            f"d^{level:.2f} with it"
        )
    found = (
        f"the variances are within {variance:.2g} of d and 1, and ‖J‖ goes as d^{falls:.2f} without the scale, as "
        f"d^{level:.2f} with it. Entries of mean 1 have scaled scores of variance {result['mean_one']:.3g}, entries "
        f"that are all equal {result['alike']:.3g}"
    )
    needed = {"are independent": result["alike"], "have mean 0": result["mean_one"]}
    conditions = [condition for condition, broken in needed.items() if abs(broken - 1) > NEAR]
    return ("holds when", f"the entries {' and '.join(conditions)}: {found}") if conditions else ("holds", found)


def draw(result: Result) -> Figure:
    lines = {
        "Var(q·k)/d": result["raw"],
        "Var(q·k/√d)": result["scaled"],
        "‖J‖ without the scale": result["gradient_raw"],
        "‖J‖ with it": result["gradient_scaled"],
    }
    return plots.curves(result["widths"], lines, across="d", up="", title="variance and gradient as d grows", log="xy")


CLAIM = Experiment(
    number=2,
    name="why divide by √d",
    statement="With unit-variance queries and keys a dot product has variance d, and β = 1/√d brings it back to 1; "
    "without it the softargmax saturates as d grows and its gradient vanishes.",
    formula="Var(q^T k) = d, Var(frac{q^T k}{sqrt{d}}) = 1",
    measured="The variance of scores with and without the scale for d = 4 … 1024, and the mean norm of the Jacobian J "
    "= ∂A/∂S over 16 keys; at d = 64 also with entries of mean 1, and with vectors whose entries are all equal.",
    rule=f"fails if a variance is more than {NEAR} off, or ‖J‖ does not fall as d to a power below −{NEAR} without the "
    f"scale and stay level (±{NEAR / 2}) with it; holds when the entries are independent (have mean 0) if the "
    "scaled scores of vectors whose entries are all equal (have mean 1) have a variance more than "
    f"{NEAR} from 1; else holds.",
    falsified_by="A variance of the scores away from d or 1, or a Jacobian whose norm does not fall without the "
    "scale: for example scores that are never scaled.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"queries": "number of queries", "keys": "number of keys"},
    least={"queries": 16, "keys": 16},
)
