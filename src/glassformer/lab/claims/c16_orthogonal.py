"""QKᵀ = I gives A = softargmax_β(I), whose diagonal is e^β/(e^β + n − 1): the identity only as β → ∞."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure

from glassformer.core import attend, scores
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, largest, normal, tensor

BETAS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
EXACT, ENOUGH = 1e-12, 0.01


def measure(seed: int, *, tokens: int = 6) -> Result:
    random = generator(seed)
    K = torch.linalg.qr(normal(random, tokens, tokens)).Q
    V = normal(random, tokens, tokens)
    diagonal, off = [], []
    for beta in BETAS:
        _, A, H = attend(K, K, V, beta=beta)
        diagonal.append(1 - float(A.diagonal().min()))
        off.append(largest(H - V))
    needed = math.log((tokens - 1) * (1 - ENOUGH) / ENOUGH)
    return {
        "betas": BETAS,
        "scores": largest(scores(K, K, beta=1.0) - torch.eye(tokens)),
        "missed": diagonal,
        "error": off,
        "needed": needed,
        "at_needed": float(attend(K, K, V, beta=needed).A.diagonal().min()),
        "counterexample": _smallest(),
    }


def _smallest() -> dict[str, object] | None:
    """Find the fewest orthogonal tokens whose output at β = 1 differs from the input."""
    for n in range(1, 5):
        unit = [[int(i == j) for j in range(n)] for i in range(n)]
        if largest(attend(*[tensor(unit)] * 3, beta=1.0).H - tensor(unit)) > EXACT:
            text = "K is orthogonal and Q = K, so that S = I. Is A = I too?"
            return exercise("Orthogonal keys", text, (unit, unit, unit))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    missed = dict(zip(result["betas"], result["missed"], strict=True))
    if result["scores"] > EXACT or missed[BETAS[-1]] > EXACT:
        return "fails", f"QKᵀ is {result['scores']:.2g} from I, and A {missed[BETAS[-1]]:.2g} at β = {BETAS[-1]:g}"
    if max(result["missed"]) > EXACT:
        return "holds when", (
            f"β → ∞. QKᵀ is I (to {result['scores']:.1g}), but at β = 1 some token gives itself a weight of only "
            f"{1 - missed[1.0]:.3g}. That weight is at least {result['at_needed']:.3g} at β = {result['needed']:.3g}, "
            f"and 1 (to {EXACT:g}) at β = {BETAS[-1]:g}"
        )
    return "holds", "at every β"


def draw(result: Result) -> Figure:
    lines = {"weight on other tokens": result["missed"], "|H − V|": result["error"]}
    marks = {"99 % of the weight on itself": result["needed"]}
    return plots.curves(
        result["betas"], lines, across="β", up="", title="orthogonal keys, Q = K", log="xy", marks=marks
    )


CLAIM = Experiment(
    number=16,
    name="orthogonal keys",
    statement="If K is orthogonal and Q = K, then QKᵀ = I and the layer is the identity.",
    formula="K K^T = I, Q = K ⇒ A = I",
    measured="QKᵀ of a random orthogonal K and, for β from ½ to 64, the largest weight that a token gives to the "
    "other tokens.",
    rule="“fails” if QKᵀ is not I, or A is not I at the largest β (to 10⁻¹²); “holds when β → ∞” if A is not I at "
    "some smaller β; otherwise “holds”.",
    falsified_by="Scores other than I, an A other than I at the largest β, or an A that is I already at β = 1.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"tokens": "number of tokens, and their width (n)"},
    least={"tokens": 2},
)
