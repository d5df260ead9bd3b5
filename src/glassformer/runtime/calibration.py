"""Calibration for int8: how each layer rounds its inputs, as fast as possible while the outputs stay close to float32.

In trained models a few channels and a few rows have much larger values than the others. With one scale for all of them,
the others would be rounded to a few levels, or to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from glassformer.models.protocols import SpeechGenerator, can
from glassformer.nn.blocks import Block
from glassformer.nn.linear import Kernel, Linear
from glassformer.nn.text import WordHead
from glassformer.runtime.kernels import PLAIN, TINY, Scaling

Layer = Linear | WordHead
# Target: mean cosine between the int8 and the float32 output vectors on the calibration input.
TARGET_COSINE = 0.9993
# Exchange rates to try between accuracy and time: the squared relative error that counts as much as the model's time.
RATES = (0.3, 0.1, 0.06, 0.04, 0.03, 0.02, 0.013, 0.009, 0.006, 0.004, 0.0025, 0.001)
# Exponents α of the channel divisors max|x|^α / max|w|^(1 − α) (SmoothQuant).
POWERS = (0.35, 0.5, 0.65)
# Number of channels with the largest values, which may be multiplied in float32.
OUTLIERS = 8
# Tokens of the example; rows of each input and outputs of each layer on which errors are computed.
LENGTH, ROWS, OUTPUTS = 128, 64, 4096


class Cost(NamedTuple):
    """Cost in microseconds of multiplying one row: per call, and per million weights in int8 or otherwise (`exact`).

    Measured on one thread of an AMD EPYC with AVX-512 VNNI, with weights outside the processor's caches; only ratios
    matter.
    """

    call: float
    int8: float
    exact: float
    divided: float
    """Additional cost of divisors; the next two are those of one scale per row and of channels in float32."""
    per_row: float
    outliers: float


# Cost of a single row, with float16 outside int8; and of one among about a thousand rows, with bfloat16.
ONE_ROW = Cost(call=5, int8=57, exact=83, divided=4, per_row=0, outliers=12)
MANY_ROWS = Cost(call=0, int8=6.2, exact=10.5, divided=0.04, per_row=0.25, outliers=0.3)


class Method(NamedTuple):
    """A method for computing a product: its scaling (None: not in int8), relative error and time."""

    scaling: Scaling | None
    error: float
    time: float


class Group:
    """Layers with the same input, and statistics of that input. `one_row`: generation passes them one row at a time."""

    def __init__(self, x: Tensor, *, one_row: bool = False) -> None:
        self.layers: list[Layer] = []
        self.weights: list[Tensor] = []
        self.one_row = one_row
        self.count = len(x)
        self.peaks = x.abs().amax(0)
        self.rows = x[:: -(-len(x) // ROWS)].clone()

    def methods(self, largest_weight: int) -> Iterator[Method]:
        """Yield methods: one scale, or one per row; with divisors; with channels in float32; last, not in int8."""
        weight = self.weights[0] if len(self.weights) == 1 else torch.cat(self.weights)
        cost, millions = ONE_ROW if self.one_row else MANY_ROWS, weight.numel() / 1e6
        weight = weight[:: -(-len(weight) // OUTPUTS)]
        sizes = (self.rows @ weight.T).square().sum(1).clamp_min(TINY)
        largest = weight.abs().amax(0).clamp_min(TINY)

        def time(scaling: Scaling) -> float:
            more = cost.divided * (scaling.divisor is not None) + cost.per_row * scaling.per_row
            more += cost.outliers * (scaling.exact is not None)
            return self.count * (cost.call + cost.int8 * millions + more)

        def error(scaling: Scaling) -> float:
            x, w = self.rows, weight
            if scaling.divisor is not None:
                x, w = x / scaling.divisor, w * scaling.divisor
            if scaling.exact is not None:
                x, w = (one.index_fill(1, scaling.exact, 0.0) for one in (x, w))
            return _relative_error(x, w, sizes, largest_weight, per_row=scaling.per_row)

        def best_of(scalings: Iterable[Scaling]) -> Method:
            """Return the method with the most accurate of these scalings."""
            errors = {scaling: error(scaling) for scaling in scalings}
            best = min(errors, key=lambda scaling: errors[scaling])
            return Method(best, errors[best], time(best))

        yield best_of([PLAIN])
        peaks = self.peaks.clamp_min(float(self.peaks.median()) + TINY)  # a channel that was small here may not stay so
        largest = largest.clamp_min(float(largest.median()))
        divisors = [(peaks**power / largest ** (1 - power)).clamp(1e-5, 1e5) for power in POWERS]
        outliers = self.peaks.topk(min(OUTLIERS, len(self.peaks) - 1)).indices
        for exact in (None, outliers):
            for per_row in (False, True):
                yield best_of(Scaling(divisor=one, exact=exact, per_row=per_row) for one in divisors)
        yield Method(None, 0.0, self.count * (cost.call + cost.exact * millions))


def _relative_error(x: Tensor, weight: Tensor, sizes: Tensor, largest_weight: int, *, per_row: bool) -> float:
    """Root mean square over rows of |error of W x| / |W x|, assuming independent rounding errors of channels."""
    error = x.square().sum(1) * ((weight.abs().amax(1) / largest_weight).square().sum() / 12)
    if per_row:
        step = x.abs().amax(1, keepdim=True).clamp_min(TINY) / 127
    else:
        step = ((x.max().clamp_min(0) - x.min().clamp_max(0)) / 255).clamp_min(TINY)
    error += ((x / step).round() * step - x).square() @ weight.square().sum(0)
    return float((error / sizes).mean().sqrt())


def calibrate(
    model: nn.Module,
    layers: Sequence[Layer],
    run: Callable[[], Tensor],
    kernel: Callable[[Layer, Scaling | None, bool], Kernel | None],
    largest_weight: int,
) -> dict[Layer, Kernel | None]:
    """Choose the int8 kernel of each layer reached by `run`, which calls the model.

    `kernel` creates the kernel of a layer for a scaling, or for None that of a layer that is not in int8; its last
    argument says whether the layer receives one row at a time in generation. The largest weight of a channel is rounded
    to `largest_weight`. The exchange rate is the largest one of RATES at which the outputs of `run` agree with those in
    float32.
    """
    groups, expected = observe(model, layers, run)
    if not groups:
        return {}
    methods = [list(group.methods(largest_weight)) for group in groups]
    total = sum(each[0].time for each in methods)

    @cache
    def made(group: int, method: int) -> list[Kernel | None]:
        return [kernel(layer, methods[group][method].scaling, groups[group].one_row) for layer in groups[group].layers]

    def use(rate: float) -> dict[Layer, Kernel | None]:
        found: dict[Layer, Kernel | None] = {}
        for i, group in enumerate(groups):
            costs = [method.error**2 + rate * method.time / total for method in methods[i]]
            best = min(range(len(costs)), key=costs.__getitem__)
            found |= dict(zip(group.layers, made(i, best), strict=True))
        for layer, one in found.items():
            layer.kernel = one
        return found

    first, last = 0, len(RATES) - 1  # the last rate is used if none agrees
    while first < last:
        middle = (first + last) // 2
        use(RATES[middle])
        agree = cosine_similarity(vectors(run()), expected, dim=-1).mean()
        first, last = (first, middle) if agree >= TARGET_COSINE else (middle + 1, last)
    return use(RATES[first])


@torch.no_grad()
def observe(model: nn.Module, layers: Sequence[Layer], run: Callable[[], Tensor]) -> tuple[list[Group], Tensor]:
    """Return the layers that a run reaches, grouped by parent and input, and the outputs of the run."""
    groups: list[Group] = []
    met: set[Layer] = set()
    parents = {child: module for module in model.modules() for child in module.children()}
    one_row = one_by_one(model)
    before: list[Tensor] = []

    def see(layer: Layer, given: tuple[Tensor, ...]) -> None:
        X = given[0]
        if layer in met or not X.numel():
            return
        if not (before and before[0] is X and parents.get(groups[-1].layers[0]) is parents.get(layer)):
            groups.append(Group(X.reshape(-1, X.shape[-1]), one_row=layer in one_row))
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


def one_by_one(model: nn.Module) -> set[nn.Module]:
    """Layers that receive one row at a time in generation: all, or only the decoder of an encoder-decoder model."""
    if not any(can(model, verb) for verb in ("generate", "translate")) and not isinstance(model, SpeechGenerator):
        return set()
    crossed = [block for block in model.modules() if isinstance(block, Block) and block.config.cross is not None]
    if not crossed:
        return set(model.modules())
    found = {module for block in crossed for module in block.modules()}
    found |= {module for module in model.modules() if isinstance(module, WordHead)}
    return found - {layer for block in crossed for layer in (block.cross.WK, block.cross.WV)}  # these read the memory


def vectors(output: object) -> Tensor:
    """Return the first tensor of a model's output as rows in float64."""
    while isinstance(output, tuple):
        output = output[0]
    if not isinstance(output, Tensor):
        raise TypeError(f"the model returned a {type(output).__name__}, not a tensor")
    return output.double().flatten(0, -2) if output.dim() > 1 else output.double()[None]
