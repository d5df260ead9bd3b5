"""|∂y_n/∂x_1| as n grows: one step in attention, n steps in a recurrent net, n/(k − 1) or log n in a convolution."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, normal
from glassformer.models import ConvNet1d, ConvNet1dConfig, Frames, Recurrent, RecurrentConfig
from glassformer.nn import MultiHeadAttention, View, heads, initialise

KERNEL = 3


def measure(seed: int, *, longest: int = 64, width: int = 16) -> Result:
    lengths = [2**k for k in range(2, int(math.log2(longest)) + 1)]
    reads = Frames(features=width)
    attention = MultiHeadAttention(heads(width, 1))
    initialise(attention, seed)
    nets: dict[str, nn.Module] = {"attention": attention}
    for cell in ("rnn", "lstm"):
        config = RecurrentConfig(reads=reads, classes=width, pool="none", width=width, layers=1, cell=cell)
        nets[cell] = Recurrent(config, seed=seed)
    random = generator(seed)
    inputs = [normal(random, 1, n, width) for n in lengths]
    gradients = {name: [_gradient(net, X) for X in inputs] for name, net in nets.items()}
    blocks = {name: [_blocks(name, n, reads, seed) for n in lengths] for name in ("plain", "dilated")}
    return {"lengths": lengths, "gradient": gradients, "blocks": blocks}


def _gradient(net: nn.Module, X: Tensor) -> float:
    """‖∂y_n/∂x_1‖, for the sum of the last output."""
    net = net.double()
    X = X.clone().requires_grad_()
    Y = net(X, None, View(causal=True)) if isinstance(net, MultiHeadAttention) else net(X)
    (slope,) = torch.autograd.grad(Y[:, -1].sum(), X)
    return float(slope[:, 0].norm())


def _blocks(kind: str, n: int, reads: Frames, seed: int) -> int:
    """How many blocks of two convolutions it takes until the last output hears the first input."""
    for blocks in range(1, n + 1):
        cycle = 1 if kind == "plain" else blocks
        config = ConvNet1dConfig(
            reads=reads, classes=4, pool="none", width=16, blocks=blocks, cycle=cycle, kernel=KERNEL
        )
        X = normal(generator(seed), 8, n, reads.features)  # several, since at the edge one ReLU can be off
        if _gradient(ConvNet1d(config, seed=seed), X) > 0:
            return blocks
    return n + 1


def judge(result: Result) -> tuple[Kind, str]:
    n, gradient = result["lengths"], result["gradient"]
    last = {name: values[-1] for name, values in gradient.items()}
    decay = _rate(n, gradient["rnn"])
    plain, dilated = result["blocks"]["plain"], result["blocks"]["dilated"]
    reach = 2 * (KERNEL - 1)
    as_said = all(b == math.ceil((m - 1) / reach) for b, m in zip(plain, n, strict=True))
    as_log = all(b <= 1 + math.log2(m) for b, m in zip(dilated, n, strict=True))
    told = (
        f"at n = {n[-1]} one attention layer has a gradient of {last['attention']:.2g}, a tanh net {last['rnn']:.2g} "
        f"(it falls by a factor of {math.exp(-decay):.2g} a step), an LSTM {last['lstm']:.2g}; {plain[-1]} "
        "plain blocks "
        f"of two convolutions reach that far, {dilated[-1]} dilated ones"
    )
    flat = last["attention"] > 1e-3 * gradient["attention"][0]
    if flat and decay < -0.05 and as_said and as_log:
        return "holds", told
    return "fails", told


def _rate(n: list[int], gradient: list[float]) -> float:
    """The slope of log gradient over n: below 0 by a constant where it falls exponentially."""
    logs = [math.log(max(g, 1e-300)) for g in gradient]
    return (logs[-1] - logs[0]) / (n[-1] - n[0])


def draw(result: Result) -> Figure:
    lines = {name: [max(g, 1e-20) for g in values] for name, values in result["gradient"].items()}
    title = "how far the gradient reaches"
    return pictures.curves(result["lengths"], lines, across="n", up="|∂y_n/∂x_1|", title=title, log="xy")


CLAIM = Experiment(
    number=22,
    name="path length",
    statement="The path between any two positions is 1 in self-attention, O(n) in a recurrent net, O(n/k) or "
    "O(log_k n) "
    "in a convolutional one.",
    formula="‖frac{∂y_n}{∂x_1}‖",
    measured="The gradient of the last output by the first input, as n grows, of one causal attention layer, one tanh "
    "layer and one LSTM with random weights; and how many blocks of convolutions (kernel 3) it takes to have any.",
    rule="holds if attention's gradient stays above a thousandth of its first, a tanh layer's falls by at least 5 % a "
    "step, plain blocks number ⌈(n − 1)/4⌉ and dilated ones at most 1 + log₂ n; else fails.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"longest": "the largest n, a power of two", "width": "how wide the layers are"},
    least={"longest": 8},
)
