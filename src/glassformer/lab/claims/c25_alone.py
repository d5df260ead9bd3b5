"""O_t = ffn(X_t), H = A V: the feed-forward net processes each position independently, and attention is linear in V."""

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
    shown = f"with A computed from the tokens themselves it is not linear (off by {result['free']:.2g})"
    if result["free"] <= SAME:
        return "fails", "the control failed: attention is linear even with A computed from the tokens"
    if worst < SAME:
        return "holds", f"to {worst:.1g}; {shown}"
    return "fails", f"it is off by up to {worst:.2g}; {shown}"


def draw(result: Result) -> Figure:
    names = {
        "alone": "ffn, one by one",
        "others": "ffn, others",
        "values": "linear in V",
        "frozen": "A fixed",
        "free": "A free",
    }
    values = {label: result[name] for name, label in names.items()}
    return plots.bars(values, up="largest difference", title="alone, and linear", log=True)


CLAIM = Experiment(
    number=25,
    name="alone, and linear",
    statement="The feed-forward net acts on each position alone; attention is linear in V once A is fixed.",
    formula="A (a V + b V_2) = a A V + b A V_2",
    measured="The feed-forward net on all positions and on each by itself; other positions when one moves; and how "
    "far attention is from linear in V with its weights fixed, and not.",
    rule="holds if all but the last differ by less than 10⁻¹², and the last (A computed from the tokens) by more; else "
    "fails.",
    falsified_by="A feed-forward output that depends on another position, or attention that is not linear in V with A "
    "fixed.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"tokens": "number of tokens", "width": "width"},
    least={"tokens": 2},
)
