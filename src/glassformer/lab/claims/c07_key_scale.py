"""k_i → α k_i multiplies q_j·k_i by α: the weight rises if the score is positive and falls if it is negative."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, random_qkv, tensor
from glassformer.lens import Layer, scale_key


def measure(seed: int, *, queries: int = 200, keys: int = 6, width: int = 4, alpha: float = 2.0) -> Result:
    layer = Layer(*random_qkv(generator(seed), queries, keys, width), width**-0.5)
    change = scale_key(layer, 0, alpha)
    before = layer.attend()
    near, far = ((layer.V[0] - H).norm(dim=-1) for H in (before.H + change.measured_H, before.H))
    return {
        "alpha": alpha,
        "score": (layer.Q @ layer.K[0]).tolist(),
        "change": change.measured_A[:, 0].tolist(),
        "nearer": (far - near).tolist(),
        "counterexample": _smallest(),
    }


def _smallest() -> dict[str, object] | None:
    """Find the smallest pair of keys for which doubling the first lowers its weight."""
    q, V = [[1]], [[1], [0]]
    for K in integers((2, 1), (-1, 0, 1)):
        doubled = [[2 * K[0][0]], K[1]]
        before, after = (float(attend(tensor(q), tensor(keys), tensor(V), beta=1.0).A[0, 0]) for keys in (K, doubled))
        if after < before:
            text = "In head 2 the first key is doubled. Does its weight rise, and does H get closer to the value 1?"
            return exercise("A doubled key that loses weight", text, (q, K, V), (q, doubled, V))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    rows = list(zip(result["score"], result["change"], result["nearer"], strict=True))
    above = [c > 0 and n > 0 for s, c, n in rows if s > 0]
    below = [c > 0 and n > 0 for s, c, n in rows if s <= 0]
    if all(above) and all(below):
        return "holds", f"for all {len(rows)} queries"
    if all(above) and not any(below):
        return "holds when", (
            f"q_j·k_i > 0: with α = {result['alpha']:g} the weight rises and the output gets closer to v_i for all "
            f"{len(above)} queries with a positive score, and for none of the {len(below)} others"
        )
    return "fails", (
        f"the weight rises and the output gets closer to v_i for {sum(above)} of {len(above)} positive scores and for "
        f"{sum(below)} of {len(below)} others"
    )


def draw(result: Result) -> Figure:
    groups = {"change of the weight A": (result["score"], result["change"])}
    title = f"one key scaled by {result['alpha']:g}"
    return plots.points(groups, across="score q·k of the scaled key", up="ΔA", title=title, marks={"q·k = 0": 0.0})


CLAIM = Experiment(
    number=7,
    name="scaling one key",
    statement="Scaling one key by α > 1 raises its weight for every query and pulls every output towards v_i.",
    formula="k_i → α k_i, α > 1 ⇒ A_{ji} rises for every j",
    measured="For many random queries, the change in the weight of the scaled key and how much closer the output gets "
    "to v_i, against the score q_j·k_i.",
    rule="“holds” if the weight rises and the output gets closer to v_i for every query; “holds when q_j·k_i > 0” if "
    "both are true of every query with a positive score and of no other query; otherwise “fails”.",
    falsified_by="A query with a positive score whose weight falls, or one with a negative score whose weight rises: "
    "for example scores with the wrong sign.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"alpha": "scale factor of the key, above 1"},
    least={"queries": 20, "keys": 2, "alpha": 1.0001},  # 20: scores of both signs
)
