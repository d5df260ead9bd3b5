"""QKᵀ = I gives A = softargmax_β(I), whose diagonal is e^β/(e^β + n − 1): O = A X W_V W_O is X only as β → ∞."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure

from glassformer.core import attend, scores
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, largest, normal, tensor

BETAS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
EXACT, CLOSE, ENOUGH = 1e-12, 1e-9, 0.01


def measure(seed: int, *, tokens: int = 6) -> Result:
    random = generator(seed)
    K = torch.linalg.qr(normal(random, tokens, tokens)).Q
    X, WV, other = (normal(random, tokens, tokens) for _ in range(3))
    inverse = torch.linalg.inv(WV)
    diagonal, off = [], []
    for beta in BETAS:
        _, A, H = attend(K, K, X @ WV, beta=beta)
        diagonal.append(1 - float(A.diagonal().min()))
        off.append(largest(H @ inverse - X))
    needed = math.log((tokens - 1) * (1 - ENOUGH) / ENOUGH)
    return {
        "betas": BETAS,
        "scores": largest(scores(K, K, beta=1.0) - torch.eye(tokens)),
        "missed": diagonal,
        "error": off,
        "other_values": largest(H @ other - X),  # at the largest β
        "needed": needed,
        "at_needed": float(attend(K, K, X, beta=needed).A.diagonal().min()),
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
    missed, error = (dict(zip(result["betas"], result[name], strict=True)) for name in ("missed", "error"))
    if result["scores"] > EXACT or missed[BETAS[-1]] > EXACT or error[BETAS[-1]] > CLOSE:
        return "fails", (
            f"QKᵀ is {result['scores']:.2g} from I; at β = {BETAS[-1]:g}, A is {missed[BETAS[-1]]:.2g} from I and the "
            f"output {error[BETAS[-1]]:.2g} from the input, although W_V W_O = I"
        )
    conditions = [
        *(["β → ∞"] if max(result["missed"]) > EXACT else []),
        *(["W_V W_O = I"] if result["other_values"] > CLOSE else []),
    ]
    found = (
        f"QKᵀ is I (to {result['scores']:.1g}). At β = {BETAS[0]:g} some token gives itself a weight of "
        f"{1 - missed[BETAS[0]]:.3g}, at β = {BETAS[-1]:g} of 1 (to {EXACT:g}). There the output differs from the "
        f"input by {error[BETAS[-1]]:.1g} if W_V W_O = I, and by {result['other_values']:.2g} with a random W_O. "
        f"{NOT_JUDGED}: the weight is at least {result['at_needed']:.3g} at β = {result['needed']:.3g}"
    )
    return ("holds when", f"{' and '.join(conditions)}. {found}") if conditions else ("holds", found)


def draw(result: Result) -> Figure:
    lines = {"weight on other tokens": result["missed"], "|O − X|, W_V W_O = I": result["error"]}
    marks = {"99 % of the weight on itself": result["needed"]}
    return plots.curves(
        result["betas"], lines, across="β", up="", title="orthogonal keys, Q = K", log="xy", marks=marks
    )


CLAIM = Experiment(
    number=16,
    name="orthogonal keys",
    statement="If K is orthogonal and Q = K, then QKᵀ = I and the layer is the identity.",
    formula="K K^T = I, Q = K ⇒ A = I",
    measured="QKᵀ of a random orthogonal K; for β from ½ to 64, the largest weight that a token gives to the other "
    "tokens; and the difference between output and input, with W_V W_O = I and with random matrices.",
    rule="“fails” if QKᵀ is not I, or if at the largest β A is not I (to 10⁻¹²) or the output is not the input (to "
    "10⁻⁹) although W_V W_O = I; “holds when β → ∞” if A is not I at some smaller β, with the condition “and W_V W_O = "
    "I” if the output is not the input with random matrices; otherwise “holds”.",
    falsified_by="Scores other than I, an A other than I at the largest β, or an output other than the input there "
    "although W_V W_O = I (“fails”); an A that is I at every β, or values that do not matter (“holds”).",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"tokens": "number of tokens, and their width (n)"},
    least={"tokens": 2},
)
