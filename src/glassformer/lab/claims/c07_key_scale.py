"""k_i → α k_i multiplies the score q_j·k_i by α: the weight rises if that is above 0 and falls if below."""

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
        "counterexample": _smallest(alpha),
    }


def _smallest(alpha: float) -> dict[str, object] | None:
    """Find the smallest two keys of which the first loses weight when it is doubled."""
    q, V = [[1]], [[1], [0]]
    for K in integers((2, 1), (-1, 0, 1)):
        doubled = [[2 * K[0][0]], K[1]]
        before, after = (float(attend(tensor(q), tensor(keys), tensor(V), beta=1.0).A[0, 0]) for keys in (K, doubled))
        if after < before:
            text = "In head 2 the first key is doubled. Does its weight rise, and does H come nearer to the value 1?"
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
            f"q_j·k_i > 0, which is the boundary itself: with α = {result['alpha']:g} the weight rises and the output "
            f"comes nearer to v_i for all {len(above)} queries with a score above 0, and for none of the {len(below)} "
            "others"
        )
    return "fails", f"it rises for {sum(above)} of {len(above)} scores above 0, and {sum(below)} of {len(below)} below"


def draw(result: Result) -> Figure:
    groups = {"change of the weight A": (result["score"], result["change"])}
    title = f"one key scaled by {result['alpha']:g}"
    return plots.points(groups, across="q·k of that key", up="ΔA", title=title, marks={"q·k = 0": 0.0})


CLAIM = Experiment(
    number=7,
    name="scaling one key",
    statement="Scaling one key by α > 1 raises its weight for every query and pulls every output towards v_i.",
    formula="k_i → α k_i, α > 1 ⇒ A_{ji} rises for every j",
    measured="For many random queries the change of the weight of the scaled key, and how much nearer to v_i the "
    "output comes, beside the score q_j·k_i.",
    rule="holds if weight and nearness rise for every query; holds when the score is above 0 if they do for all of "
    "those and for none of the others; else fails.",
    falsified_by="A query with a positive score whose weight falls, or one with a negative score whose weight rises: "
    "for example scores with the wrong sign.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "queries": "number of queries",
        "keys": "number of keys",
        "width": "width (d)",
        "alpha": "the factor, above 1",
    },
    least={"keys": 2, "alpha": 1.0001},
)
