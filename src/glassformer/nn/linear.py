"""y = W x + b, and how weights start: from a seed, or empty for weights that come from a file."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """torch's linear map, made without touching the global random state: `initialise` fills it, or a file does."""

    def reset_parameters(self) -> None:
        pass


class Embedding(nn.Embedding):
    """torch's table of vectors, made without touching the global random state."""

    def reset_parameters(self) -> None:
        pass


class Convolution(nn.Conv1d):
    """torch's 1-D convolution, made without touching the global random state."""

    def reset_parameters(self) -> None:
        pass


class Convolution2d(nn.Conv2d):
    """torch's 2-D convolution, made without touching the global random state."""

    def reset_parameters(self) -> None:
        pass


Initialiser = Callable[[Tensor, torch.Generator], None]


def glorot(weight: Tensor, generator: torch.Generator) -> None:
    """Uniform on ±√(6/(fan in + fan out)) (Glorot, Bengio 2010)."""
    bound = math.sqrt(6 / (weight.shape[0] + weight[0].numel()))
    weight.uniform_(-bound, bound, generator=generator)


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
