"""softargmax(−∞, …, −∞) = 0/0: a query that may attend to nothing has no answer, and whoever gives one chose it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glassformer.core import attend, softargmax
from glassformer.errors import MaskError
from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, normal


def measure(seed: int, *, keys: int = 4, width: int = 4) -> Result:
    random = generator(seed)
    Q, K, V = normal(random, 1, width), normal(random, keys, width), normal(random, keys, width)
    none = torch.zeros(1, keys, dtype=torch.bool)
    blind = torch.full((1, keys), -math.inf, dtype=torch.float64)
    ways: dict[str, Callable[[], Tensor]] = {
        "glassformer": lambda: attend(Q, K, V, mask=none).H,
        "torch softmax of −∞": lambda: torch.softmax(blind, -1) @ V,
        "torch fused kernel": lambda: scaled_dot_product_attention(Q[None], K[None], V[None], none)[0],
        "SciPy softmax of −∞": lambda: _scipy(blind) @ V,
        "a very negative number for −∞": lambda: torch.softmax(torch.full_like(blind, -1e9), -1) @ V,
    }
    answers = {name: _kind(way, V) for name, way in ways.items()}
    depth = torch.tensor([1e6], dtype=torch.float64)
    equal = softargmax(-depth.expand(keys))  # both rows go to −∞ everywhere as the depth grows
    apart = softargmax(-depth * torch.arange(1, keys + 1))
    return {"answers": answers, "limits": [equal.tolist(), apart.tolist()]}


def _scipy(S: Tensor) -> Tensor:
    from scipy.special import softmax

    with np.errstate(all="ignore"):
        return torch.from_numpy(softmax(S.numpy(), -1))


def _kind(way: Callable[[], Tensor], V: Tensor) -> str:
    try:
        H = way()
    except MaskError:
        return "an error that names the query"
    if H.isnan().all():
        return "NaN"
    if float(H.abs().max()) == 0:
        return "0"
    return "the mean of all values" if torch.allclose(H, V.mean(0)) else "something else"


def judge(result: Result) -> tuple[Kind, str]:
    equal, apart = result["limits"]
    away = max(abs(a - b) for a, b in zip(equal, apart, strict=True))
    told = "; ".join(f"{name}: {answer}" for name, answer in result["answers"].items())
    kinds = len(set(result["answers"].values()))
    if away > 0.1 and kinds >= 3:
        asked = len(result["answers"])
        return "holds", f"two ways to −∞ end {away:.2g} apart, and {asked} libraries give {kinds} answers ({told})"
    return "fails", f"two ways to −∞ end {away:.2g} apart, and there are {kinds} answers ({told})"


def draw(result: Result) -> Figure:
    return pictures.maps(
        {"all scores alike": [result["limits"][0]], "each lower than the last": [result["limits"][1]]},
        title="two limits of A as every score goes to −∞",
    )


CLAIM = Experiment(
    number=9,
    name="a fully masked row",
    statement="A fully masked row has no defined answer, and every library answers differently.",
    formula="softargmax(−∞, …, −∞) = frac{0}{0}",
    measured="The weights as all scores go to −∞ together and one after the other; and what libraries answer.",
    rule="holds if the two limits differ by more than 0.1, so that there is none, and at least three different answers "
    "are given; else fails.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"keys": "how many keys, all masked", "width": "how wide they are (d)"},
    least={"keys": 2},
)
