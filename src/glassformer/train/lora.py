"""y = W x + b + (α/r) B A x: LoRA fine-tuning with low-rank adapters on selected linear layers.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021. B is initialised to 0, so training starts from
the original model. After training the adapters are merged into W, and the model is saved and used like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from glassformer.errors import ConfigError
from glassformer.nn import Linear
from glassformer.train.transfer import classifier_heads

ATTENTION = ("*.WQ", "*.WV")  # the layers that the paper adapts


@dataclass(frozen=True, kw_only=True)
class LoRA:
    """LoRA configuration: rank r, scale α, path patterns of the linear layers to adapt (`encoder.*.attention.WQ`)."""

    rank: int = 4
    alpha: float = 8.0
    layers: tuple[str, ...] = ATTENTION

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0:
            fact = f"rank is {self.rank} and alpha is {self.alpha}"
            raise ConfigError(fact, "choose a rank of at least 1 and a positive alpha")


class LoRALinear(Linear):
    """y = W x + b + (α/r) B (A x), with W and b frozen."""

    def __init__(self, base: nn.Linear, lora: LoRA, generator: torch.Generator) -> None:
        nn.Module.__init__(self)  # reuses the base layer's weights instead of allocating new ones
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        r, like = lora.rank, base.weight
        self.scale = lora.alpha / r
        bound = 1 / math.sqrt(self.in_features)
        start = torch.empty(r, self.in_features).uniform_(-bound, bound, generator=generator)
        self.A = nn.Parameter(start.to(like))
        self.B = nn.Parameter(torch.zeros(self.out_features, r).to(like))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.scale * linear(linear(input, self.A), self.B)

    @torch.no_grad()
    def merged(self) -> Linear:
        """Return a plain linear layer with the weights W + (α/r) B A."""
        layer = Linear(self.in_features, self.out_features, bias=self.bias is not None).to(self.weight)
        layer.weight.copy_(self.weight + self.scale * (self.B @ self.A))
        if layer.bias is not None:
            layer.bias.copy_(self.bias)
        return layer


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """A batch norm whose running statistics stay fixed while the rest of the model trains."""

    def train(self, mode: bool = True) -> Self:
        return super().train(False)


def add_adapters(model: nn.Module, lora: LoRA, *, seed: int = 0) -> list[str]:
    """Freeze the model and add adapters to the layers that match `lora`; the classification head stays trainable.

    Modifies the model in place and returns the paths of the adapted layers.
    """
    paths = [
        path
        for path, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and any(fnmatchcase(path, pattern) for pattern in lora.layers)
    ]
    if not paths:
        known = [path for path, layer in model.named_modules() if isinstance(layer, nn.Linear)]
        fact = f"no linear layer matches {' or '.join(lora.layers)}"
        raise ConfigError(fact, f"the model has {', '.join(known[:4])}, …")
    model.requires_grad_(False)
    for path in classifier_heads(model):
        model.get_submodule(path).requires_grad_(True)
    for layer in model.modules():
        if type(layer) is nn.BatchNorm2d:
            set_class(layer, FrozenBatchNorm2d).eval()
    generator = torch.Generator().manual_seed(seed)
    for path in paths:
        base = model.get_submodule(path)
        assert isinstance(base, nn.Linear)
        _replace(model, path, LoRALinear(base, lora, generator))
    return paths


def merge_adapters(model: nn.Module) -> nn.Module:
    """Merge every adapter into its layer in place, leaving a model of plain layers."""
    for path, layer in list(adapters(model)):
        _replace(model, path, layer.merged())
    for norm in model.modules():
        if isinstance(norm, FrozenBatchNorm2d):
            set_class(norm, nn.BatchNorm2d).train(model.training)
    return model.requires_grad_(True)


def merged_model(model: nn.Module) -> nn.Module:
    """Return a copy with merged adapters, or the model itself if it has none."""
    return merge_adapters(deepcopy(model)) if next(adapters(model), None) is not None else model


def adapters(model: nn.Module) -> Iterator[tuple[str, LoRALinear]]:
    return ((path, layer) for path, layer in model.named_modules() if isinstance(layer, LoRALinear))


def _replace(model: nn.Module, path: str, layer: nn.Module) -> None:
    above, _, name = path.rpartition(".")
    setattr(model.get_submodule(above), name, layer)


def set_class(layer: nn.Module, kind: type[nn.Module]) -> nn.Module:
    layer.__class__ = kind
    return layer
