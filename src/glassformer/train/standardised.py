"""y = μ + σ (W x + b): a regression head trained on standardised targets, and folded into a plain linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.nn import Linear
from glassformer.train.lora import set_class
from glassformer.train.transfer import classifier_heads


class StandardisedLinear(Linear):
    """A linear layer whose output has the mean and standard deviation of the targets while its weights are near 0."""

    mean: float
    std: float

    def forward(self, input: Tensor) -> Tensor:
        output = super().forward(input)
        return self.mean + self.std * output.to(torch.promote_types(output.dtype, torch.float32))


def moments(targets: Sequence[float]) -> tuple[float, float]:
    """Return the mean and standard deviation of the targets; the latter is 1 if they are all equal."""
    numbers = np.array(targets, dtype=np.float64)
    return float(numbers.mean()), float(numbers.std()) or 1.0


@torch.no_grad()
def standardise_head(model: nn.Module, mean: float, std: float) -> None:
    """Standardise the model's regression head, in place: it starts at the mean and learns in standard deviations."""
    for path in classifier_heads(model):
        head = model.get_submodule(path)
        assert isinstance(head, Linear)
        assert head.bias is not None
        head.bias.zero_()
        standardised = set_class(head, StandardisedLinear)
        assert isinstance(standardised, StandardisedLinear)
        standardised.mean, standardised.std = mean, std


@torch.no_grad()
def fold_head(model: nn.Module) -> nn.Module:
    """W ← σ W, b ← μ + σ b: turn a standardised head into a plain linear layer with the same output, in place."""
    for head in model.modules():
        if isinstance(head, StandardisedLinear):
            assert head.bias is not None
            head.weight.mul_(head.std)
            head.bias.mul_(head.std).add_(head.mean)
            del head.mean, head.std
            set_class(head, Linear)
    return model


def folded(model: nn.Module) -> nn.Module:
    """Return a copy with a plain head, or the model itself if its head is plain."""
    if any(isinstance(layer, StandardisedLinear) for layer in model.modules()):
        return fold_head(deepcopy(model))
    return model
