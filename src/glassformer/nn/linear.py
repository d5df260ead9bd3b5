"""y = W x + b, and weight initialisation: weights are 0 until `initialise` or a checkpoint sets them.

PyTorch's own layers initialise weights from the global random state; these do not use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Protocol

import torch
from torch import Tensor, nn

from glassformer.core.precision import require_runnable
from glassformer.core.values import has_values
from glassformer.errors import ShapeError

FEW_WINDOWS = 64  # up to this many windows, torch's convolution takes three times as long as the same matrix product


@torch.no_grad()
def _zeros(module: nn.Module) -> None:
    for weight in module.parameters(recurse=False):
        weight.zero_()


class Kernel(Protocol):
    """x Wᵀ + b: a faster implementation, set on a layer by `runtime.prepare`."""

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor: ...

    def require_differentiable(self) -> None:
        """Raise an error if this kernel has no backward pass."""

    def joins(self, other: Kernel | None) -> bool:
        """Whether two layers with these kernels and the same input can be computed as one product."""

    def joint(self, input: Tensor, layers: Sequence[Linear]) -> tuple[Tensor, ...] | None:
        """Return the outputs of several layers with the same input, from one product; None if each must run itself."""

    def packed(self, layers: Sequence[Linear], activation: str | None = None) -> Callable[[Tensor], Tensor]:
        """Return a function for these layers and the activation, with their current weights and without checks."""

    def bfloat16_attention(self) -> bool:
        """Whether attention in the same layer may use bfloat16, and is faster with it."""


class Linear(nn.Linear):
    """y = W x + b, computed by PyTorch or by the kernel set by `runtime.prepare`, with the same weights."""

    kernel: Kernel | None = None

    def reset_parameters(self) -> None:
        _zeros(self)

    def train(self, mode: bool = True) -> Linear:
        """Set training mode. The kernel repacks the weights, whose version fused optimizers do not increment."""
        if mode != self.training:
            self.kernel = deepcopy(self.kernel)
        return super().train(mode)

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] != self.in_features:
            raise ShapeError(
                f"the input has width {input.shape[-1]}, the layer expects {self.in_features}",
                "give it vectors of that width",
            )
        if self.kernel is not None:
            if self.training and torch.is_grad_enabled():
                self.kernel.require_differentiable()
            return self.kernel(input, self.weight, self.bias)
        require_runnable(self.weight.dtype)
        return nn.functional.linear(input, self.weight, self.bias)


def version_of(weight: Tensor) -> int:
    """Return how often a weight was changed in place; torch does not count it for tensors made in inference mode."""
    return -1 if weight.is_inference() else weight._version


def joint(input: Tensor, *layers: Linear) -> tuple[Tensor, ...]:
    """W₁ x + b₁, W₂ x + b₂, …: layers with the same input, computed as one product if their kernels allow it."""
    kernel = getattr(layers[0], "kernel", None)
    found = None if kernel is None else kernel.joint(input, layers)
    return tuple(layer(input) for layer in layers) if found is None else found


@torch.no_grad()
def joined(weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """Stack the weights and biases of layers with the same input; missing biases are 0."""
    some = any(bias is not None for bias in biases)
    filled = [w.new_zeros(len(w)) if b is None else b.detach() for w, b in zip(weights, biases, strict=True)]
    return torch.cat([weight.detach() for weight in weights]), torch.cat(filled) if some else None


class Dropout(nn.Dropout):
    """Dropout that costs nothing in eval mode, where it would otherwise be called for every generated token."""

    def __call__(self, input: Tensor) -> Tensor:
        return super().__call__(input) if self.training and self.p else input


class Embedding(nn.Embedding):
    """An embedding table, initialised to zeros."""

    def reset_parameters(self) -> None:
        _zeros(self)


class Convolution(nn.Conv1d):
    """A 1-D convolution, initialised to zeros. A few windows are computed as one product if no gradient is needed."""

    def reset_parameters(self) -> None:
        _zeros(self)

    def forward(self, input: Tensor) -> Tensor:
        (size,), (stride,) = self.kernel_size, self.stride
        plain = self.dilation == (1,) and self.groups == 1 and self.padding == (0,) and input.dim() == 3
        few = plain and size <= input.shape[-1] < size + FEW_WINDOWS * stride
        if not few or torch.is_grad_enabled() or not has_values(input):
            return super().forward(input)
        rows = input.unfold(-1, size, stride).transpose(1, 2).flatten(2)
        return nn.functional.linear(rows, self.weight.flatten(1), self.bias).mT


class Convolution2d(nn.Conv2d):
    """A 2-D convolution, initialised to zeros."""

    def reset_parameters(self) -> None:
        _zeros(self)

    def forward(self, input: Tensor) -> Tensor:
        if self.kernel_size != (1, 1) or self.padding != (0, 0) or self.stride == (1, 1):
            return super().forward(input)
        # The same pixels, with a stride of 1: without AVX-512, oneDNN's gradient of strided 1 × 1 convolutions of
        # channels-last images writes beyond its memory.
        rows, columns = self.stride
        picked = input[..., ::rows, ::columns]
        return nn.functional.conv2d(picked, self.weight, self.bias, dilation=self.dilation, groups=self.groups)


Initialiser = Callable[[Tensor, torch.Generator], None]


def glorot(weight: Tensor, generator: torch.Generator) -> None:
    """Glorot (Xavier) initialisation: uniform on ±√(6/(fan in + fan out)) (Glorot, Bengio 2010)."""
    nn.init.xavier_uniform_(weight, generator=generator)


def normal(spread: float) -> Initialiser:
    """Truncated normal initialisation with standard deviation `spread`, cut off at two standard deviations."""

    def fill(weight: Tensor, generator: torch.Generator) -> None:
        nn.init.trunc_normal_(weight, 0.0, spread, -2 * spread, 2 * spread, generator=generator)

    return fill


@torch.no_grad()
def initialise(model: nn.Module, seed: int, matrices: Initialiser = glorot) -> None:
    """Initialise all weights from one seed: matrices with `matrices`, embeddings normal with std 1/√width, biases 0.

    Vectors other than biases (gains of norms, scales) keep their initial constants. Weights on the meta device are
    skipped.
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
