"""O = A X W_V W_O: with A = I and W_V W_O = I the layer returns its input."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.lens import edit
from glassformer.nn import MultiHeadAttention, View, heads, initialise

EXACT = 1e-9


def measure(seed: int, *, tokens: int = 6, width: int = 8) -> Result:
    random = generator(seed)
    layer = MultiHeadAttention(heads(width, 1)).double()
    initialise(layer, seed)
    X = normal(random, 1, tokens, width)
    itself = View(mask=torch.eye(tokens, dtype=torch.bool))  # softargmax of a single score: A = I
    WV = normal(random, width, width)
    with torch.no_grad():
        layer.WV.weight.copy_(WV)
        layer.WO.weight.copy_(torch.linalg.inv(WV))
        both, inverse_only = layer(X, None, itself), layer(X)
        with edit(layer, "A", torch.eye(tokens)):
            edited = layer(X)
        layer.WO.weight.copy_(normal(random, width, width))
        diagonal_only = layer(X, None, itself)
    return {
        "both": max(largest(both - X), largest(edited - X)),
        "only A = I": largest(diagonal_only - X),
        "only W_V W_O = I": largest(inverse_only - X),
    }


def judge(result: Result) -> tuple[Kind, str]:
    one = (result["only A = I"], result["only W_V W_O = I"])
    alone = f"with only one condition it is off by {one[0]:.2g} (A = I) and {one[1]:.2g} (W_V W_O = I)"
    if min(one) <= EXACT:
        return "fails", f"one condition is enough, so the experiment does not test the claim: {alone}"
    if result["both"] < EXACT:
        return "holds", f"the output equals the input to {result['both']:.1g}; {alone}"
    return "fails", f"the output is off by {result['both']:.2g}; {alone}"


def draw(result: Result) -> Figure:
    return plots.bars(result, up="|O − X|", title="A = I and W_V W_O = I", log=True)


CLAIM = Experiment(
    number=15,
    name="the identity layer",
    statement="Self-attention is the identity layer when A = I and W_V·W_O = I.",
    formula="A = I, W_V W_O = I ⇒ O = X",
    measured="|O − X| of a layer whose mask lets each token attend only to itself and whose W_O is the inverse of a "
    "random W_V; the same with A set to I by an edit; and with only one of the two conditions.",
    rule=f"“holds” if the output equals the input (to {EXACT:g}) with both conditions, and differs with only one of "
    "them; otherwise “fails”.",
    falsified_by="An output that differs from the input although A = I and W_V W_O = I, or one that equals it with "
    "only one of the two conditions.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 2},
)
