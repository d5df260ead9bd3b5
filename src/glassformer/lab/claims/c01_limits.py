"""lim β → ∞ A = one-hot, lim β → 0 A = 1/m: hard and soft attention as limits of the scale."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, random_qkv, tensor

SMALL = 1e-3
BETAS = [10.0**k for k in range(-4, 7)]


def measure(seed: int, *, queries: int = 16, keys: int = 8, width: int = 4) -> Result:
    random = generator(seed)
    Q, K, V = random_qkv(random, queries, keys, width)
    tied = torch.cat([K, K])  # every key twice, so that the largest score is tied for every query
    hard, soft, shared, soft_at_ties = [], [], [], []
    for beta in BETAS:
        _, A, H = attend(Q, K, V, beta=beta)
        S = Q @ K.mT
        hard.append(max(largest(A.amax(1) - 1), largest(H - V[S.argmax(1)])))
        soft.append(max(largest(A - 1 / keys), largest(H - V.mean(0))))
        A = attend(Q, tied, torch.cat([V, -V]), beta=beta).A
        shared.append(largest(A.amax(1) - 1))
        soft_at_ties.append(largest(A - 1 / (2 * keys)))
    return {
        "betas": BETAS,
        "hard": hard,
        "soft": [max(pair) for pair in zip(soft, soft_at_ties, strict=True)],
        "tied": shared,
        "counterexample": _smallest(),
    }


def _smallest() -> dict[str, object] | None:
    """Find the smallest keys for which one query's weights do not become one-hot."""
    q, V = [[1]], [[0], [2]]
    for K in integers((2, 1), (1, 2, 3)):
        if largest(attend(tensor(q), tensor(K), tensor(V), beta=1e6).A.amax() - 1) > SMALL:
            text = "The two keys are equal. Does any scale make the weights one-hot, or the output one of the values?"
            return exercise("A tie stays a tie", text, (q, K, V), scale=1000)
    return None


def judge(result: Result) -> tuple[Kind, str]:
    hard, soft, tied = result["hard"][-1], result["soft"][0], result["tied"][-1]
    if hard > SMALL or soft > SMALL:
        return "fails", (
            f"A or H is up to {hard:.2g} away from the hard limit at β = {BETAS[-1]:g}, and up to {soft:.2g} from the "
            f"soft limit at β = {BETAS[0]:g}"
        )
    if tied > SMALL:
        return "holds when", (
            f"one score is strictly the largest: with every key duplicated, the largest weight of some query is only "
            f"{1 - tied:.2g} even at β = {BETAS[-1]:g}. The limit β → 0 needs no condition"
        )
    return "holds", f"A is within {max(hard, soft, tied):.2g} of its limits, with and without ties"


def draw(result: Result) -> Figure:
    lines = {"from one-hot": result["hard"], "from 1/m": result["soft"], "from one-hot, with ties": result["tied"]}
    return plots.curves(
        result["betas"], lines, across="β", up="largest distance of A and H", title="A between its limits", log="x"
    )


CLAIM = Experiment(
    number=1,
    name="hard and soft limits",
    statement="As β → ∞, the weights of each query become one-hot (hard attention) and its output becomes a single "
    "value vector. As β → 0, every weight becomes 1/m (soft attention) and the output becomes the mean of the values.",
    formula="A = softargmax_β(S), lim_{β→∞} A_{ij} = [j = argmax_l S_{il}], lim_{β→0} A_{ij} = frac{1}{m}",
    measured="The largest distance of A and H from both limits for β from 10⁻⁴ to 10⁶, and of A again with every key "
    "duplicated.",
    rule=f"“fails” if, at the ends of this range, A or H is more than {SMALL} away from the hard limit (without ties) "
    "or from the soft limit (with or without ties); “holds when one score is strictly the largest” if A does not "
    "become one-hot with duplicated keys; otherwise “holds”.",
    falsified_by="Weights that stay away from a limit at the end of the range of β (for example because of a wrong "
    "normalisation), or tied scores that become one-hot.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"keys": "number of keys (m)"},
)
