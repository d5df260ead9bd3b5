"""How each layer of a model rounds its inputs in int8: chosen by the error of its product on the model's example input.

Trained models have a few channels, and a few rows, whose values are much larger than the others. With one scale for
all, the others are rounded to a few levels, or to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.text import WordHead
from glassformer.runtime.kernels import TINY, Scaling

Layer = Linear | WordHead
# A faster way is taken if its relative error is at most this, or at most so many times that of the most accurate one.
TOLERANCE, RATIO = 0.007, 1.3
# Relative error of all products together, the root of the sum of their squares. While it is larger, layers multiply the
# remainder of their inputs, if that reduces their own error to a share of at most `WORTH`.
BUDGET, WORTH = 0.07, 0.5
# Tokens of the example, rows of each input that errors are computed on, and channels multiplied in float32.
LENGTH, ROWS, EXACT = 128, 64, 16


class Group:
    """Layers with the same input, and statistics of that input."""

    def __init__(self, x: Tensor) -> None:
        self.layers: list[Layer] = []
        self.weights: list[Tensor] = []
        self.low, self.high, self.peaks = float(x.min()), float(x.max()), x.abs().amax(0)
        self.rows = x[:: -(-len(x) // ROWS)].clone()
        self.scaling: Scaling | None = None
        self.error = 0.0

    def choose(self) -> None:
        """Choose the fastest rounding that is accurate enough."""
        ways = list(self._ways())
        enough = max(TOLERANCE, RATIO * min(error for _, error in ways))
        self.scaling, self.error = next(way for way in ways if way[1] <= enough)

    def _ways(self) -> Iterator[tuple[Scaling | None, float]]:
        """Candidates: one scale for all rows; one per row; one per row, and the largest channels in float32."""
        weight = self.weights[0] if len(self.weights) == 1 else torch.cat(self.weights)
        self.sizes = (self.rows @ weight.T).square().sum(1).clamp_min(TINY)
        self.columns = weight.square().sum(0)
        self.weight_error = _weight_error(weight)
        one = torch.ones(len(self.rows), 1)
        yield None, self._relative(self.rows, one, self.low, self.high)
        yield Scaling(), self._relative(self.rows, *_per_row(self.rows))
        exact = self.peaks.topk(min(EXACT, len(self.peaks) // 8)).indices.sort().values
        x = self.rows.index_fill(1, exact, 0.0)
        self.weight_error = _weight_error(weight.index_fill(1, exact, 0.0))
        yield Scaling(exact=exact), self._relative(x, *_per_row(x))

    def remainder_error(self) -> float:
        """The error if the rounding remainder of the inputs is multiplied too: only that of the weights is left."""
        return self._relative(self.rows, None)

    def add_remainder(self) -> None:
        exact = None if self.scaling is None else self.scaling.exact
        self.scaling, self.error = Scaling(exact=exact, remainder=True), self.remainder_error()

    def _relative(self, x: Tensor, scale: Tensor | None, low: float = 0.0, high: float = 0.0) -> float:
        """The root mean square over rows of |error of W x| / |W x|, if errors of channels are independent."""
        error = x.square().sum(1) * self.weight_error
        if scale is not None:
            step = scale * max((max(high, 0.0) - min(low, 0.0)) / 255, TINY)
            error += ((x / step).round() * step - x).square() @ self.columns
        return float((error / self.sizes).mean().sqrt())


def _weight_error(weight: Tensor) -> Tensor:
    """Expected square of the rounding error of one column."""
    return (weight.abs().amax(1) / 127).square().sum() / 12


def _per_row(x: Tensor) -> tuple[Tensor, float, float]:
    """The scale of each row, and the least and the largest value after it."""
    scale = x.abs().amax(1, keepdim=True).clamp_min(TINY)
    return scale, float((x / scale).min()), float((x / scale).max())


def calibrate(model: nn.Module, layers: Sequence[Layer], run: Callable[[], object]) -> dict[Layer, Scaling | None]:
    """Choose how each layer rounds its inputs, from one call of the model in float32 (`run`)."""
    groups = observe(model, layers, run)
    for group in groups:
        group.choose()
    for group in sorted(groups, key=lambda group: group.remainder_error() ** 2 - group.error**2):
        if sum(group.error**2 for group in groups) > BUDGET**2 and group.remainder_error() <= WORTH * group.error:
            group.add_remainder()
    return {layer: group.scaling for group in groups for layer in group.layers}


@torch.no_grad()
def observe(model: nn.Module, layers: Sequence[Layer], run: Callable[[], object]) -> list[Group]:
    """Return the layers that a run calls, grouped by parent and input."""
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
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return groups
