"""O_t = ffn(X_t), H = A V: the feed-forward network acts on each position alone, and attention is linear in V."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.lens import edit
from glassformer.nn import FeedForward, FeedForwardConfig, MultiHeadAttention, heads, initialise

SAME = 1e-12


def measure(seed: int, *, tokens: int = 6, width: int = 8) -> Result:
    random = generator(seed)
    ffn = FeedForward(FeedForwardConfig(width=width, hidden=4 * width)).double()
    layer = MultiHeadAttention(heads(width, 1, biases="")).double()
    initialise(ffn, seed)
    initialise(layer, seed)
    X, Y = normal(random, 1, tokens, width), normal(random, 1, tokens, width)
    a, b = 2.0, -3.0
    with torch.no_grad():
        alone = torch.cat([ffn(X[:, [t]]) for t in range(tokens)], 1)
        moved = X.clone()
        moved[:, 0] += 1
        others = largest((ffn(moved) - ffn(X))[:, 1:])
        A = attend(X[0], X[0], X[0]).A
        with edit(layer, "A", A):
            frozen = largest(layer(a * X + b * Y) - a * layer(X) - b * layer(Y))
        free = largest(layer(a * X + b * Y) - a * layer(X) - b * layer(Y))
    Q, K = normal(random, tokens, width), normal(random, tokens, width)
    H = lambda V: attend(Q, K, V).H
    return {
        "alone": largest(alone - ffn(X).detach()),
        "others": others,
        "values": largest(H(a * X[0] + b * Y[0]) - a * H(X[0]) - b * H(Y[0])),
        "frozen": frozen,
        "free": free,
    }


def judge(result: Result) -> tuple[Kind, str]:
    worst = max(result[name] for name in ("alone", "others", "values", "frozen"))
    shown = f"with A computed from the tokens attention is not linear (off by {result['free']:.2g})"
    if result["free"] <= SAME:
        return "fails", "the control failed: attention is linear even with A computed from the tokens"
    if worst < SAME:
        return "holds", f"both are exact to {worst:.1g}; {shown}"
    return "fails", f"the largest difference is {worst:.2g}; {shown}"


def draw(result: Result) -> Figure:
    names = {
        "alone": "FFN, one by one",
        "others": "FFN, other positions",
        "values": "linear in V",
        "frozen": "A fixed",
        "free": "A from the tokens",
    }
    values = {label: result[name] for name, label in names.items()}
    return plots.bars(values, up="largest difference", title="position-wise, and linear in V", log=True)


CLAIM = Experiment(
    number=25,
    name="position-wise, and linear in V",
    statement="The feed-forward network acts on each position independently; attention is linear in V once A is fixed.",
    formula="A (a V + b V_2) = a A V + b A V_2",
    measured="The difference between the feed-forward network on all positions and on each alone; the change at other "
    "positions when one input changes; and how far attention is from linear in V with A fixed, and with A computed "
    "from the tokens.",
    rule="“holds” if all differences are below 10⁻¹², except with A computed from the tokens, where attention must "
    "not be linear; otherwise “fails”.",
    falsified_by="A feed-forward output that depends on another position, or attention that is not linear in V with A "
    "fixed.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 2},
)
