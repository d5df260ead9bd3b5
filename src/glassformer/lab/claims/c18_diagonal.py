"""A = I: O_t = x_t W_V W_O, the same matrix at every position, which is a convolution with kernel size 1."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch.nn.functional import conv1d

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.lens import edit, trace
from glassformer.nn import MultiHeadAttention, View, heads, initialise

EXACT = 1e-12


def measure(seed: int, *, tokens: int = 8, width: int = 6) -> Result:
    random = generator(seed)
    layer = MultiHeadAttention(heads(width, 1, biases="")).double()
    initialise(layer, seed)
    X = normal(random, 1, tokens, width)
    kernel = (layer.WO.weight @ layer.WV.weight).detach()[..., None]
    target = conv1d(X.mT, kernel).mT
    diagonal = View(mask=torch.eye(tokens, dtype=torch.bool))
    with torch.no_grad(), trace(layer, "A") as run:
        O = layer(X, None, diagonal)
    A = run["A"][0, 0]
    with torch.no_grad(), edit(layer, "A", torch.diag(torch.rand(tokens, generator=random))):
        unequal = layer(X)
    return {
        "error": largest(O - target),
        "identity": largest(A - torch.eye(tokens)),
        "sums": largest(A.sum(-1) - 1),
        "unequal": largest(unequal - target),
    }


def judge(result: Result) -> tuple[Kind, str]:
    forced = "the rows of A sum to 1, so a diagonal A is I"
    other = f"with other entries, which no softargmax produces, it would be off by {result['unequal']:.2g}"
    if result["unequal"] <= EXACT:
        return "fails", "the control failed: a diagonal A with other entries gives the same output"
    if max(result["error"], result["identity"], result["sums"]) < EXACT:
        return "holds", f"{forced}, and the layer equals the convolution to {result['error']:.1g}; {other}"
    return "fails", f"the layer is {result['error']:.2g} from the convolution, and A {result['identity']:.2g} from I"


def draw(result: Result) -> Figure:
    values = {"A = I": result["error"], "other entries": result["unequal"]}
    return plots.bars(values, up="|O − convolution|", title="a diagonal A", log=True)


CLAIM = Experiment(
    number=18,
    name="a diagonal A",
    statement="A diagonal A makes the layer a convolution with kernel size 1.",
    formula="A = I ⇒ O_t = X_t W_V W_O",
    measured="A layer whose mask lets each token attend only to itself, against torch's convolution with the kernel "
    "W_V W_O; and the output for a diagonal A with other entries.",
    rule="“holds” if A is I, its rows sum to 1 and the layer equals the convolution, all to 10⁻¹², and if a diagonal "
    "A with other entries gives a different output; otherwise “fails”.",
    falsified_by="A layer with a diagonal A that differs from the convolution with kernel size 1.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 2},
)
