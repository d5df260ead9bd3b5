"""The path between two positions: 1 layer of attention, n − 1 recurrent steps, n/(k − 1) or log n convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.models import ConvNet1d, ConvNet1dConfig, Frames, Recurrent, RecurrentConfig
from glassformer.models.recurrent_cells import CellKind
from glassformer.nn import MultiHeadAttention, View, heads, initialise

KERNEL = 3
CELLS: tuple[CellKind, ...] = ("rnn", "lstm")


def measure(seed: int, *, longest: int = 64, width: int = 16) -> Result:
    lengths = [2**k for k in range(2, int(math.log2(longest)) + 1)]
    reads = Frames(features=width)
    attention = MultiHeadAttention(heads(width, 1)).double()
    initialise(attention, seed)
    recurrent = {}
    for cell in CELLS:
        config = RecurrentConfig(reads=reads, classes=width, pool="none", width=width, layers=1, cell=cell)
        recurrent[cell] = Recurrent(config, seed=seed).double()
    random = generator(seed)
    inputs = [normal(random, 1, n, width) / 4 for n in lengths]  # small, so that tanh does not saturate
    attended = lambda X: attention(X, None, View(causal=True))
    return {
        "lengths": lengths,
        "attention_pairs": [_pairs(attended, X) for X in inputs],
        "recurrent_steps": {cell: [_steps(net, X) for X in inputs] for cell, net in recurrent.items()},
        "blocks": {name: [_blocks(name, n, reads, seed) for n in lengths] for name in ("plain", "dilated")},
        "gradient": {
            "attention": [_gradient(attended, X) for X in inputs],
            **{cell: [_gradient(net, X) for X in inputs] for cell, net in recurrent.items()},
        },
    }


@torch.no_grad()
def _pairs(run: Callable[[Tensor], Tensor], X: Tensor) -> list[int]:
    """Return how many pairs of an earlier input and a later output one layer connects, and how many there are."""
    Y, found, n = run(X), 0, X.shape[1]
    for j in range(n - 1):
        moved = X.clone()
        moved[:, j] += 1
        found += int(((run(moved) - Y)[:, j + 1 :].abs().amax((0, 2)) > 0).sum())
    return [found, n * (n - 1) // 2]


@torch.no_grad()
def _steps(net: Recurrent, X: Tensor) -> int:
    """Return the number of steps at which resetting the state disconnects the last output from the first input.

    Returns 0 if the last output does not depend on the first input at all.
    """
    moved, n = X.clone(), X.shape[1]
    moved[:, 0] += 1
    if largest(net(moved)[:, -1] - net(X)[:, -1]) == 0:
        return 0
    cut = 0
    for t in range(1, n):
        ends = []
        for each in (X, moved):
            states = net.stream(each[:, :t]).states
            lost = tuple(tuple(torch.zeros_like(part) for part in state) for state in states)
            ends.append(net.stream(each[:, t:], lost).logits[:, -1])
        cut += largest(ends[1] - ends[0]) == 0
    return cut


@torch.no_grad()
def _blocks(kind: str, n: int, reads: Frames, seed: int) -> int:
    """Return the smallest number of blocks of two convolutions at which the last output depends on the first input."""
    X = normal(generator(seed), 8, n, reads.features)  # several inputs, since a ReLU at the edge may be inactive
    moved = X.clone()
    moved[:, 0] += 1
    for blocks in range(1, n + 1):
        cycle = 1 if kind == "plain" else blocks
        config = ConvNet1dConfig(
            reads=reads, classes=4, pool="none", width=16, blocks=blocks, cycle=cycle, kernel=KERNEL
        )
        net = ConvNet1d(config, seed=seed).double().eval()
        if largest((net(moved) - net(X))[:, -1]) > 0:
            return blocks
    return n + 1


def _gradient(run: Callable[[Tensor], Tensor], X: Tensor) -> float:
    """‖∂y_n/∂x_1‖, for the sum of the last output."""
    X = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(run(X)[:, -1].sum(), X)
    return float(slope[:, 0].norm())


def judge(result: Result) -> tuple[Kind, str]:
    n, gradient = result["lengths"], result["gradient"]
    plain, dilated = result["blocks"]["plain"], result["blocks"]["dilated"]
    every = all(found == pairs for found, pairs in result["attention_pairs"])
    stepwise = all(s == m - 1 for steps in result["recurrent_steps"].values() for s, m in zip(steps, n, strict=True))
    as_said = all(b == math.ceil((m - 1) / (2 * (KERNEL - 1))) for b, m in zip(plain, n, strict=True))
    as_log = all(b <= 1 + math.log2(m) for b, m in zip(dilated, n, strict=True))
    found, pairs = result["attention_pairs"][-1]
    steps = ", ".join(f"{cell} {each[-1]}" for cell, each in result["recurrent_steps"].items())
    shown = (
        f"at n = {n[-1]}, one attention layer connects {found} of {pairs} pairs; of {n[-1] - 1} recurrent steps, this "
        f"many disconnect the first input if the state is reset there: {steps}; {plain[-1]} plain or {dilated[-1]} "
        "dilated blocks of two convolutions reach the first input"
    )
    sizes = ", ".join(f"{name} {values[-1]:.2g}" for name, values in gradient.items())
    shown += f". {NOT_JUDGED}: ‖∂y_n/∂x_1‖ with random weights is {sizes}"
    return ("holds" if every and stepwise and as_said and as_log else "fails"), shown


def draw(result: Result) -> Figure:
    one = [1.0 if found == pairs else math.nan for found, pairs in result["attention_pairs"]]  # more than one: unknown
    lines = {
        "attention: layers": one,
        "recurrent: steps": [float(s) for s in result["recurrent_steps"]["rnn"]],
        "plain convolutions: blocks": [float(b) for b in result["blocks"]["plain"]],
        "dilated convolutions: blocks": [float(b) for b in result["blocks"]["dilated"]],
    }
    lines = {name: [max(y, 0.5) for y in values] for name, values in lines.items()}
    title = "path from the first input to the last output"
    return plots.curves(result["lengths"], lines, across="n", up="steps", title=title, log="xy")


CLAIM = Experiment(
    number=22,
    name="path length",
    statement="The path between any two positions has length 1 in self-attention, O(n) in a recurrent network, and "
    "O(n/k) or O(log_k n) in a convolutional one.",
    formula="path = 1, n - 1, ⌈frac{n - 1}{2(k - 1)}⌉, O(log n)",
    measured="By perturbing inputs, with random weights in float64: which later outputs of a causal attention layer "
    "change with each input; at how many steps of a recurrent layer a reset of the state disconnects the last output "
    "from the first input; and the smallest number of blocks of two convolutions (kernel size 3) that connect the "
    "two. Gradient norms are reported separately.",
    rule="“holds” if, at every n, one attention layer connects every pair, a reset at any of the n − 1 recurrent "
    "steps disconnects the first input, and the first input is reached by exactly ⌈(n − 1)/4⌉ plain and at most 1 + "
    "log₂ n dilated blocks; otherwise “fails”. Gradient norms are not part of the rule.",
    falsified_by="A pair that one attention layer does not connect (for example because of a window), a recurrent "
    "step that can be skipped, or convolutions that need a different depth.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"longest": "largest n, a power of two", "width": "width of the layers"},
    least={"longest": 8},
)
