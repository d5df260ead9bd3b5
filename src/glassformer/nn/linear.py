"""y = W x + b, and how weights start: 0 until `initialise` fills them from a seed, or a file does.

torch's own layers draw their first weights from the global random state; these leave it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.core.precision import require_runnable
from glassformer.errors import ShapeError


@torch.no_grad()
def _zeros(module: nn.Module) -> None:
    for weight in module.parameters(recurse=False):
        weight.zero_()


class Linear(nn.Linear):
    """y = W x + b."""

    def reset_parameters(self) -> None:
        _zeros(self)

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] != self.in_features:
            raise ShapeError(
                f"vectors are {input.shape[-1]} wide, the layer {self.in_features}", "feed it its own width"
            )
        require_runnable(self.weight.dtype)
        return super().forward(input)


class Embedding(nn.Embedding):
    """A table of vectors, one for each number."""

    def reset_parameters(self) -> None:
        _zeros(self)


class Convolution(nn.Conv1d):
    """A convolution over a sequence."""

    def reset_parameters(self) -> None:
        _zeros(self)


class Convolution2d(nn.Conv2d):
    """A convolution over an image."""

    def reset_parameters(self) -> None:
        _zeros(self)


Initialiser = Callable[[Tensor, torch.Generator], None]


def glorot(weight: Tensor, generator: torch.Generator) -> None:
    """Uniform on ±√(6/(fan in + fan out)) (Glorot, Bengio 2010)."""
    nn.init.xavier_uniform_(weight, generator=generator)


def normal(spread: float) -> Initialiser:
    """Normal with the given standard deviation, cut off at two of them."""

    def fill(weight: Tensor, generator: torch.Generator) -> None:
        nn.init.trunc_normal_(weight, 0.0, spread, -2 * spread, 2 * spread, generator=generator)

    return fill


@torch.no_grad()
def initialise(model: nn.Module, seed: int, matrices: Initialiser = glorot) -> None:
    """Every weight from one seed: matrices by the initialiser, tables normal with deviation 1/√width, biases 0.

    Vectors other than biases (gains of norms, scales) keep the constants they were made with. On the meta device
    there is nothing to fill.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.is_meta:
            continue
        if weight.dim() < 2:
            if name.endswith("bias"):
                weight.zero_()
        elif isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding):
            weight.normal_(0.0, 1 / math.sqrt(weight.shape[-1]), generator=generator)
        else:
            matrices(weight, generator)
