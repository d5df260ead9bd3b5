"""Var(q·k) = d, Var(q·k / √d) = 1: why scores are divided by √d, and what that assumes."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core import scores, softargmax
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, normal
from glassformer.lens.perturb import fitted_exponent
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
    """Find the smallest width at which ±(1, …, 1), with entries of variance 1, has scaled scores of other variance."""
    for d in range(1, 9):
        Q = [[1] * d, [-1] * d]
        S = scores(torch.tensor(Q, dtype=torch.float64), torch.tensor(Q, dtype=torch.float64))
        if abs(float(S.var(correction=0)) - 1) > 1e-9:
            text = "Every entry of Q and K is 1 or −1, equally often: variance 1. What is the variance of S?"
            return exercise("All entries equal", text, (Q, Q, [[1], [0]]), scale="1/sqrt(dk)")
    return None


def judge(result: Result) -> tuple[Kind, str]:
    variance = max(abs(v - 1) for v in (*result["raw"], *result["scaled"]))
    falls = fitted_exponent(result["widths"], result["gradient_raw"])
    level = fitted_exponent(result["widths"], result["gradient_scaled"])
    if variance > NEAR or falls > -NEAR or abs(level) > NEAR / 2:
        return "fails", (
            f"Var(q·k)/d and Var(q·k/√d) differ from 1 by up to {variance:.2g}; ‖J‖ scales as d^{falls:.2f} without "
            f"the scale and as d^{level:.2f} with it"
        )
    found = (
        f"Var(q·k)/d and Var(q·k/√d) are within {variance:.2g} of 1; ‖J‖ scales as d^{falls:.2f} without the scale and "
        f"as d^{level:.2f} with it. The scaled scores have variance {result['mean_one']:.3g} if the entries have mean "
        f"1, and {result['alike']:.3g} if all entries of a vector are equal"
    )
    needed = {"are independent": result["alike"], "have mean 0": result["mean_one"]}
    conditions = [condition for condition, broken in needed.items() if abs(broken - 1) > NEAR]
    return ("holds when", f"the entries {' and '.join(conditions)}: {found}") if conditions else ("holds", found)


def draw(result: Result) -> Figure:
    lines = {
        "Var(q·k)/d": result["raw"],
        "Var(q·k/√d)": result["scaled"],
        "‖J‖ without the scale": result["gradient_raw"],
        "‖J‖ with the scale": result["gradient_scaled"],
    }
    return plots.curves(result["widths"], lines, across="d", up="", title="variance and gradient as d grows", log="xy")


CLAIM = Experiment(
    number=2,
    name="why divide by √d",
    statement="If queries and keys have unit variance, their dot product has variance d, and β = 1/√d brings it back "
    "to 1. Without this scale the softargmax saturates as d grows and its gradient vanishes.",
    formula="Var(q · k) = d, Var(frac{q · k}{sqrt{d}}) = 1",
    measured="The variance of the scores with and without the scale for d from 4 to 1024, and the mean norm of the "
    "Jacobian J = ∂A/∂S over 16 keys. At d = 64 also the variance of the scaled scores if the entries have mean 1, "
    "and if all entries of a vector are equal.",
    rule=f"“fails” if Var(q·k)/d or Var(q·k/√d) differs from 1 by more than {NEAR}, if ‖J‖ falls more slowly than "
    f"d^−{NEAR} without the scale, or if its exponent in d with the scale is not within ±{NEAR / 2}; “holds when the "
    "entries are independent” if the scaled scores of vectors whose entries are all equal have a variance more than "
    f"{NEAR} from 1, and “holds when the entries have mean 0” if those of entries with mean 1 do; otherwise “holds”.",
    falsified_by="Scores whose variance is not d without the scale or not 1 with it, or a Jacobian whose norm does "
    "not fall without the scale: for example scores that are never scaled.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"queries": 16, "keys": 16},
)
