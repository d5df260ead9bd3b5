"""How each layer of a model rounds its inputs in int8: the fastest choice with which the model still answers the same.

Trained models have a few channels, and a few rows, whose values are much larger than the others. With one scale for
all, the others are rounded to a few levels, or to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from glassformer.nn.linear import Kernel, Linear
from glassformer.nn.text import WordHead
from glassformer.runtime.kernels import PLAIN, TINY, Scaling

Layer = Linear | WordHead
# Mean cosine between the output vectors of the calibration's input in int8 and in float32 that is aimed at.
AIM = 0.9993
# Exchange rates between time and accuracy that are tried: the square of a relative error, for all of the model's time.
RATES = (0.3, 0.1, 0.06, 0.04, 0.03, 0.02, 0.013, 0.009, 0.006, 0.004, 0.0025, 0.001)
# Divisors of channels: their largest value to this power, divided by their largest weight to the rest.
POWERS = (0.35, 0.5, 0.65)
# Time of a product relative to one scale per call: with divisors, with a scale per row, and not in int8.
DIVIDED, PER_ROW, EXACT = 1.06, 1.15, 2.5
# Tokens of the example, and rows of each input and outputs of each layer that errors are computed on.
LENGTH, ROWS, OUTPUTS = 128, 64, 4096


class Way(NamedTuple):
    """One way to compute a product: its scaling (None: not in int8), its relative error and its relative time."""

    scaling: Scaling | None
    error: float
    time: float


class Group:
    """Layers with the same input, and statistics of that input."""

    def __init__(self, x: Tensor) -> None:
        self.layers: list[Layer] = []
        self.weights: list[Tensor] = []
        self.peaks = x.abs().amax(0)
        self.rows = x[:: -(-len(x) // ROWS)].clone()

    def ways(self) -> Iterator[Way]:
        """One scale for all rows, or one for each with divisors of the channels, and not in int8."""
        weight = self.weights[0] if len(self.weights) == 1 else torch.cat(self.weights)
        weight = weight[:: -(-len(weight) // OUTPUTS)]
        sizes = (self.rows @ weight.T).square().sum(1).clamp_min(TINY)
        columns, largest = weight.square().sum(0), weight.abs().amax(0).clamp_min(TINY)

        def error(divisor: Tensor | None) -> tuple[float, float]:
            """With one scale for all rows, and with one for each."""
            x = self.rows if divisor is None else self.rows / divisor
            scaled = weight if divisor is None else weight * divisor
            squares = columns if divisor is None else columns * divisor.square()
            return tuple(_relative_error(x, scaled, squares, sizes, per_row=each) for each in (False, True))  # type: ignore[return-value]

        yield Way(PLAIN, error(None)[0], 1.0)
        peaks = self.peaks.clamp_min(float(self.peaks.median()) + TINY)  # a channel that was small here may not stay so
        largest = largest.clamp_min(float(largest.median()))
        divisors = [(peaks**power / largest ** (1 - power)).clamp(1e-5, 1e5) for power in POWERS]
        errors = [error(divisor) for divisor in divisors]
        for per_row in (False, True):
            best = min(range(len(divisors)), key=lambda k: errors[k][per_row])
            scaling = Scaling(divisor=divisors[best], per_row=per_row)
            yield Way(scaling, errors[best][per_row], PER_ROW if per_row else DIVIDED)
        yield Way(None, 0.0, EXACT)

    def size(self) -> int:
        return sum(weight.numel() for weight in self.weights)


def _relative_error(x: Tensor, weight: Tensor, columns: Tensor, sizes: Tensor, *, per_row: bool) -> float:
    """The root mean square over rows of |error of W x| / |W x|, if the rounding errors of channels are independent."""
    error = x.square().sum(1) * ((weight.abs().amax(1) / 127).square().sum() / 12)
    if per_row:
        step = x.abs().amax(1, keepdim=True).clamp_min(TINY) / 127
    else:
        step = ((x.max().clamp_min(0) - x.min().clamp_max(0)) / 255).clamp_min(TINY)
    error += ((x / step).round() * step - x).square() @ columns
    return float((error / sizes).mean().sqrt())


def calibrate(
    model: nn.Module,
    layers: Sequence[Layer],
    run: Callable[[], Tensor],
    kernel: Callable[[Scaling | None], Kernel | None],
) -> dict[Layer, Kernel | None]:
    """Give each layer that `run`, a call of the model, reaches the kernel that it is to have in int8.

    `kernel` makes the kernel of a scaling, or that of a layer that is not in int8 for None. Of the exchange rates
    between time and accuracy, the largest is taken with which the outputs of `run` agree with those in float32.
    """
    groups, expected = observe(model, layers, run)
    if not groups:
        return {}
    total = sum(group.size() for group in groups)
    ways = [list(group.ways()) for group in groups]

    @cache
    def made(group: int, way: int) -> list[Kernel | None]:
        return [kernel(ways[group][way].scaling) for _ in groups[group].layers]

    def use(rate: float) -> dict[Layer, Kernel | None]:
        found: dict[Layer, Kernel | None] = {}
        for i, group in enumerate(groups):
            share = rate * group.size() / total
            best = min(range(len(ways[i])), key=lambda k: ways[i][k].error ** 2 + share * ways[i][k].time)
            found |= dict(zip(group.layers, made(i, best), strict=True))
        for layer, one in found.items():
            layer.kernel = one
        return found

    first, last = 0, len(RATES) - 1  # the last rate is taken if none agrees
    while first < last:
        middle = (first + last) // 2
        use(RATES[middle])
        agree = cosine_similarity(vectors(run()), expected, dim=-1).mean()
        first, last = (first, middle) if agree >= AIM else (middle + 1, last)
    return use(RATES[first])


@torch.no_grad()
def observe(model: nn.Module, layers: Sequence[Layer], run: Callable[[], Tensor]) -> tuple[list[Group], Tensor]:
    """The layers that a run reaches, in groups of one parent and one input, and the outputs of the run."""
    groups: list[Group] = []
    met: set[Layer] = set()
    parents = {child: module for module in model.modules() for child in module.children()}
    before: list[Tensor] = []

    def see(layer: Layer, given: tuple[Tensor, ...]) -> None:
        X = given[0]
        if layer in met or not X.numel():
            return
        if not (before and before[0] is X and parents.get(groups[-1].layers[0]) is parents.get(layer)):
            groups.append(Group(X.reshape(-1, X.shape[-1])))
        before[:] = [X]
        met.add(layer)
        weight = layer.weight if isinstance(layer, Linear) else given[1] if layer.W is None else layer.W.weight
        groups[-1].layers.append(layer)
        groups[-1].weights.append(weight.detach())

    hooks = [layer.register_forward_pre_hook(see) for layer in layers]
    try:
        output = vectors(run())
    finally:
        for hook in hooks:
            hook.remove()
    return groups, output


def vectors(output: object) -> Tensor:
    """The first tensor of a model's output, as rows."""
    while isinstance(output, tuple):
        output = output[0]
    if not isinstance(output, Tensor):
        raise TypeError(f"the model returned a {type(output).__name__}, not a tensor")
    return output.double().flatten(0, -2) if output.dim() > 1 else output.double()[None]
