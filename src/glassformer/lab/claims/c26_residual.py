"""y = x + F(x) has the derivative 1 + F′(x), which is 0 where F′ = −1; how norms and residuals act over depth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, normal
from glassformer.nn import (
    Block,
    BlockConfig,
    FeedForward,
    FeedForwardConfig,
    NormConfig,
    Stack,
    heads,
    initialise,
)

Forward = Callable[[Block, Tensor], Tensor]


def measure(seed: int, *, width: int = 16, tokens: int = 6, deepest: int = 32) -> Result:
    depths = [2**k for k in range(deepest.bit_length()) if 2**k <= deepest]
    X = normal(generator(seed), 1, tokens, width)
    w = normal(generator(seed + 1), 1, tokens, width)
    ways: dict[str, tuple[str, Forward]] = {
        "pre-norm, residual": ("pre", _whole),
        "post-norm, residual": ("post", _whole),
        "residual, no norm": ("pre", _without_norm),
        "norm, no residual": ("pre", _without_residual),
        "neither": ("pre", lambda block, x: block.ffn(block.attention(x))),
    }
    norms = {name: [_gradient(place, step, X, w, d, seed) for d in depths] for name, (place, step) in ways.items()}
    return {"depths": depths, "gradient": norms, **_smallest()}


def _whole(block: Block, x: Tensor) -> Tensor:
    return block(x)


def _without_norm(block: Block, x: Tensor) -> Tensor:
    x = x + block.attention(x)
    return x + block.ffn(x)


def _without_residual(block: Block, x: Tensor) -> Tensor:
    x = block.attention(block.attention_residual.norm(x))
    return block.ffn(block.ffn_residual.norm(x))


def _gradient(place: str, step: Forward, X: Tensor, w: Tensor, depth: int, seed: int) -> float:
    """‖∂(w·y)/∂x‖ / ‖w‖ through `depth` blocks with random weights."""
    width = X.shape[-1]
    ffn = FeedForwardConfig(width=width, hidden=4 * width)
    config = BlockConfig(attention=heads(width, 2), ffn=ffn, place="pre" if place == "pre" else "post")
    last = NormConfig() if step is _whole and place == "pre" else None  # a pre-norm stack ends with a norm
    stack = Stack(config, depth, last_norm=last).double()
    initialise(stack, seed)
    x = X.clone().requires_grad_()
    y = x
    for block in stack.blocks():
        y = step(block, y)
    y = y if stack.norm is None else stack.norm(y)
    (slope,) = torch.autograd.grad((y * w).sum(), x)
    return float(slope.norm() / w.norm())


def _smallest() -> Result:
    """Find the smallest integer weights of a ReLU net F(x) = w₂ relu(w₁ x) with |1 + F′(1)| < 1."""
    for w1, w2 in sorted(product((-2, -1, 0, 1, 2), repeat=2), key=lambda w: (abs(w[0]) + abs(w[1]), w[0] < 0)):
        F = FeedForward(FeedForwardConfig(width=1, hidden=1, activation="relu", bias=False)).double()
        with torch.no_grad():
            F.W1.weight.fill_(w1)
            F.W2.weight.fill_(w2)
        x = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad((x + F(x)).sum(), x)
        if abs(float(slope)) < 1:
            text = "y = x + F(x). The two tokens differ. Do their outputs? What is the derivative of y?"
            parts = {"X": [[1], [2]], "ffn": {"W1": [[w1]], "W2": [[w2]]}, "residual": True}
            found = {"title": "A residual branch that cancels its input", "text": text, **parts}
            return {"least": float(slope), "F": f"{w2}·relu({w1}·x)".replace("-", "−"), "counterexample": found}
    return {"least": 1.0}


def judge(result: Result) -> tuple[Kind, str]:
    over = {name: norms[-1] / norms[0] for name, norms in result["gradient"].items()}
    ours = over.pop("pre-norm, residual")
    others = "; ".join(f"{name}: {ratio:.2g}" for name, ratio in over.items())
    level = 0.1 < ours < 10
    kept = "keeps" if level else "does not keep"
    rest = (
        f"pre-norm {kept} the gradient norm stable over depth: from 1 to {result['depths'][-1]} blocks it changes by a "
        f"factor of {ours:.2g}. {NOT_JUDGED}: the factor of the others is {others}"
    )
    if abs(result["least"]) < 1:
        return "fails", (
            f"the gradient can be below 1: for F(x) = {result['F']} it is {result['least']:g} at x = 1; {rest}"
        )
    return ("holds", rest) if level else ("fails", rest)


def draw(result: Result) -> Figure:
    title, norms = "gradient norm at the first block", result["gradient"]
    return plots.curves(
        result["depths"], norms, across="blocks", up="gradient norm", title=title, log="xy", floor=1e-30
    )


CLAIM = Experiment(
    number=26,
    name="residuals and gradients",
    statement="Residual connections make the gradient at least 1; with LayerNorm they keep gradient norms stable over "
    "depth.",
    formula="y = x + F(x) ⇒ |frac{∂y}{∂x}| = |1 + frac{∂F}{∂x}| ≥ 1",
    measured="The derivative of x + F(x) for small feed-forward networks F; and the gradient norm at the first of 1 "
    "to 32 blocks with random weights, with and without residual connections and norms, pre-norm and post-norm.",
    rule="“fails” if the absolute value of the derivative of x + F(x) is below 1 for some F, or if the "
    "pre-norm gradient norm changes by a factor of 10 or more from the smallest to the largest depth; otherwise "
    "“holds”.",
    falsified_by="No F for which the absolute value of the derivative of x + F(x) is below 1, and a pre-norm gradient "
    "norm that is stable over depth.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"width": "width of the blocks (even)", "deepest": "most blocks"},
    least={"width": 2, "deepest": 2},
)
