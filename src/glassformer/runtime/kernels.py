"""Kernels for y = x Wᵀ + b on the CPU: packed float32, bfloat16 (oneDNN), float16 and dynamic int8 (FBGEMM, oneDNN).

A kernel is set on a layer by `runtime.prepare`. It packs a copy of the layer's weight on first use, and again if the
weight has changed since. The weight itself stays in the layer, so that saving, exporting and reading it work as before.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from glassformer.core.captured import captured
from glassformer.core.values import has_values
from glassformer.errors import InputError
from glassformer.nn.feedforward import ACTIVATIONS
from glassformer.nn.linear import Kernel, Linear, joined, version_of
from glassformer.runtime.gradients import linear_with_gradients

# oneDNN chooses the layout of packed weights for an expected number of rows; this one suits 1 row to thousands.
EXPECTED_ROWS = 128

# Activations that oneDNN fuses with the product: our name, and the name and algorithm in oneDNN.
FUSED = {"relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"), "silu": ("swish", ""),
         "tanh": ("tanh", "")}  # fmt: skip

IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": torch.ops.aten.gelu_.default._op,
    "silu": torch.ops.aten.silu_.default._op,
    "tanh": torch.tanh_,
}

TINY = torch.finfo(torch.float32).tiny

if TYPE_CHECKING:
    PackedWeight = Any
else:
    PackedWeight = torch.classes.quantized.LinearPackedParamsBase

# The operator itself, since torch's wrapper checks the arguments, which takes as long as a small layer.
_float_product = torch.ops.mkldnn._linear_pointwise.default._op


@captured
def _half_product(input: Tensor, weight: PackedWeight) -> Tensor:
    return torch.ops.quantized.linear_dynamic_fp16(input, weight)


@captured
def _int8_product(
    input: Tensor,
    weight: PackedWeight,
    bias: Tensor | None,
    factor: Tensor | None,
    exact: Tensor | None,
    channels: Tensor | None,
    per_row: bool,
    tiny: float = TINY,
) -> Tensor:
    x = input if factor is None else input * factor
    if not per_row:
        y = torch.ops.quantized.linear_dynamic(x, weight, False)
    else:
        if x.numel() == x.shape[-1]:  # the scale of the call is that of its only row
            y = torch.ops.quantized.linear_dynamic(x, weight, False)
        else:
            largest = x.abs().amax(-1, keepdim=True).clamp_min_(tiny)
            y = torch.ops.quantized.linear_dynamic(x / largest, weight, False).mul_(largest)
        if bias is not None:
            y.add_(bias)
    if exact is not None and channels is not None:
        y.view(-1, y.shape[-1]).addmm_(input.reshape(-1, input.shape[-1]).index_select(1, channels), exact)
    return y


@captured
def _onednn_int8_product(
    input: Tensor,
    weight: Tensor,
    scales: Tensor,
    zeros: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    exact: Tensor | None,
    channels: Tensor | None,
    per_row: bool,
    activation: str,
    algorithm: str,
    tiny: float = TINY,
) -> Tensor:
    x = input if factor is None else input * factor
    largest: Tensor | None = None
    if per_row and x.numel() > x.shape[-1]:
        largest = x.abs().amax(-1, keepdim=True).clamp_min_(tiny)
        x = x / largest
    lowest, highest = torch.aminmax(x)
    low, high = float(lowest), float(highest)
    if not (math.isfinite(low) and math.isfinite(high)):  # these have no integers
        shape = list(x.shape[:-1])
        shape.append(len(scales))
        return torch.full(shape, math.nan)
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / 255, tiny)
    zero = int(0.5 - low / scale)
    q = torch.quantize_per_tensor(x, scale, zero, torch.quint8).int_repr()
    fused = bias if largest is None else None
    y = torch.ops.onednn.qlinear_pointwise(
        q, scale, zero, weight, scales, zeros, fused, 1.0, 0, torch.float32, activation, [], algorithm
    )
    if largest is not None:
        y.mul_(largest)
        if bias is not None:
            y.add_(bias)
    if exact is not None and channels is not None:
        y.view(-1, y.shape[-1]).addmm_(input.reshape(-1, input.shape[-1]).index_select(1, channels), exact)
    return y


class PackedKernel:
    """Packs weights once and multiplies by the packed copy; subclasses define `pack` and `product`."""

    precision: str
    differentiable = False
    fast_attention = False  # of all kernels: attention in bfloat16 is faster on this machine, as `prepare` found
    uses_amx = False  # may run AMX instructions, which some processors advertise and cannot execute

    def __init__(self) -> None:
        self._packed: dict[int, tuple[tuple[int, ...], Any, Tensor | None]] = {}  # by the number of joint layers

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not has_values(input):  # a compiler or an exporter is tracing: the graph gets the layer's own weights
            return linear(input, weight, bias)
        if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
            self.require_differentiable()
            return self.with_gradients(input, weight, bias)
        source = (weight.data_ptr(), version_of(weight))
        kept = self._packed.get(1)
        if kept is None or kept[0] != source:
            kept = self._keep(source, [weight], [bias])
        return self.product(input, kept[1], kept[2])

    def with_gradients(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x Wᵀ + b from the layer's own weight, for autograd."""
        return linear_with_gradients(input, weight, bias)

    def require_differentiable(self) -> None:
        """Raise an error for training and gradients in a low precision."""
        if not self.differentiable:
            raise InputError(
                f"a model prepared for {self.precision} has no gradients",
                'load it with precision="fp32" to train it or to differentiate through it',
            )

    def joins(self, other: Kernel | None) -> bool:
        """Whether layers with these two kernels and the same input can be computed as one product."""
        return type(other) is type(self)

    def bfloat16_attention(self) -> bool:
        """Whether attention next to this product may use bfloat16, and is faster so on this machine."""
        return self.precision != "fp32" and PackedKernel.fast_attention

    def joint(self, input: Tensor, layers: Sequence[Linear]) -> tuple[Tensor, ...] | None:
        """Return the outputs of several layers from one product with all their weights, or None if not possible.

        Layers must have the same kind of kernel and no forward hooks, and no gradient may be needed.
        """
        if not has_values(input):
            return None
        source: tuple[int, ...] = ()
        for layer in layers:
            if not self.joins(getattr(layer, "kernel", None)) or not isinstance(layer, Linear):
                return None
            if type(layer).forward is not Linear.forward or layer._forward_hooks or layer._forward_pre_hooks:
                return None
            source += (layer.weight.data_ptr(), version_of(layer.weight))
        first = layers[0].weight
        if torch.is_grad_enabled() and (layers[0].training or input.requires_grad or first.requires_grad):
            return None
        if input.shape[-1] != first.shape[1]:
            return None  # the layer itself raises the error
        kept = self._packed.get(len(layers))
        if kept is None or kept[0] != source:
            kept = self._keep(source, [layer.weight for layer in layers], [layer.bias for layer in layers])
        return self.product(input, kept[1], kept[2]).split([layer.out_features for layer in layers], -1)

    def packed(self, layers: Sequence[Linear], activation: str | None = None) -> Callable[[Tensor], Tensor]:
        """Return the product with the current weights of these layers, followed by an activation, without checks."""
        source = tuple(part for layer in layers for part in (layer.weight.data_ptr(), version_of(layer.weight)))
        kept = self._packed.get(len(layers))
        if kept is None or kept[0] != source:
            kept = self._keep(source, [layer.weight for layer in layers], [layer.bias for layer in layers])
        weight, bias = kept[1:]
        if activation is None:
            return lambda x: self.product(x, weight, bias)
        return self.activated(activation, weight, bias)

    def activated(self, activation: str, packed: Any, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Return φ(x Wᵀ + b). Where torch can, φ overwrites its argument, which saves a pass through memory."""
        function = IN_PLACE.get(activation, ACTIVATIONS[activation])
        return lambda x: function(self.product(x, packed, bias))

    @torch.no_grad()
    def _keep(
        self, source: tuple[int, ...], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
    ) -> tuple[tuple[int, ...], Any, Tensor | None]:
        if len(weights) == 1:
            weight, bias = weights[0].detach(), biases[0]
        else:
            weight, bias = joined(weights, biases)
        self._packed[len(weights)] = kept = (source, self.pack(weight, bias), bias)
        return kept

    def pack(self, weight: Tensor, bias: Tensor | None) -> Any:
        raise NotImplementedError

    def product(self, input: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedKernel:
        return type(self)()  # the copy packs its own weight

    def __reduce__(self) -> tuple[type[PackedKernel], tuple[Any, ...]]:
        return type(self), ()


class Float32Kernel(PackedKernel):
    """float32, by oneDNN with the weight reordered into its own blocks. Products with gradients reorder it anew."""

    precision = "fp32"
    differentiable = True

    def pack(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), EXPECTED_ROWS)

    def product(self, input: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        return _float_product(input, packed, bias, "none", [], "")

    def activated(self, activation: str, packed: Any, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        fused = FUSED.get(activation)
        if fused is None:
            return super().activated(activation, packed, bias)
        name, algorithm = fused
        return lambda x: _float_product(x, packed, bias, name, [], algorithm)


class TransposedKernel(PackedKernel):
    """float32, computed as torch's own product with a copy of Wᵀ, for layers with up to a million weights.

    The underlying library reads the rows of Wᵀ in place, but reorders W first, which takes longer than the product of a
    few rows. The row stride of the copy is not a power of two, which would map rows to the same cache sets.
    """

    precision = "fp32"
    differentiable = True

    def pack(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, columns = weight.shape
        return weight.new_empty(columns, rows + 16)[:, :rows].copy_(weight.T)

    def product(self, input: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        if input.dim() != 2:
            return self.product(input.reshape(-1, input.shape[-1]), packed, bias).view(*input.shape[:-1], -1)
        return torch.mm(input, packed) if bias is None else torch.addmm(bias, input, packed)

    def with_gradients(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(input, weight, bias)


class BFloat16Kernel(PackedKernel):
    """bfloat16 inputs and weights, float32 accumulation and results: the residual stream and every tap stay float32."""

    precision = "bf16"
    uses_amx = True

    def pack(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16().contiguous(), EXPECTED_ROWS)

    def product(self, input: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        output = _float_product(input.bfloat16(), packed, None, "none", [], "")
        return output.float() if bias is None else output.float() + bias


class AccurateKernel(BFloat16Kernel):
    """The bfloat16 kernel for single layers of an int8 model; error messages give the precision as int8."""

    precision = "int8"


class HalfKernel(PackedKernel):
    """float16 weights, float32 activations and sums (FBGEMM): half the bytes of float32, and nearly as exact.

    For a few rows, where reading the weights dominates, it is the fastest product other than int8; for many rows it is
    as slow as float32. Models in int8 use it for single layers.
    """

    precision = "int8"

    def pack(self, weight: Tensor, bias: Tensor | None) -> Any:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            return torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), bias)
        finally:
            torch.backends.quantized.engine = before

    def product(self, input: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        return _half_product(input, packed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scaling:
    """How the input of an int8 product is rounded. Layers with the same input share one object."""

    divisor: Tensor | None = None
    """Each input channel is divided by this, and its weights are multiplied by it (Xiao et al. 2023, SmoothQuant)."""
    exact: Tensor | None = None
    """Input channels that are multiplied in float32 instead (Dettmers et al. 2022, LLM.int8())."""
    per_row: bool = False
    """Each row has its own scale, instead of one for all activations of a call."""


PLAIN = Scaling()


class PackedInt8(NamedTuple):
    """A weight packed for an int8 product."""

    weight: Any
    factor: Tensor | None
    """What the input is multiplied by: the inverse of the divisor, and 0 for exact channels."""
    exact: Tensor | None
    """The float32 weights of the exact channels, (channels, outputs)."""


class Int8Kernel(PackedKernel):
    """int8 weights with one scale per output channel. Activations are quantised dynamically, as `scaling` specifies."""

    precision = "int8"

    def __init__(self, scaling: Scaling = PLAIN) -> None:
        super().__init__()
        self.scaling = scaling

    def joins(self, other: Kernel | None) -> bool:
        return isinstance(other, Int8Kernel) and type(other) is type(self) and other.scaling is self.scaling

    def pack(self, weight: Tensor, bias: Tensor | None) -> PackedInt8:
        scaling, factor, exact = self.scaling, None, None
        if scaling.divisor is not None:
            weight, factor = weight * scaling.divisor, 1 / scaling.divisor
        if scaling.exact is not None:
            factor = torch.ones(weight.shape[1]) if factor is None else factor
            exact = (weight * factor)[:, scaling.exact].T.contiguous()
            weight = weight.index_fill(1, scaling.exact, 0.0)
            factor = factor.index_fill(0, scaling.exact, 0.0)
        bias = None if scaling.per_row else bias
        return PackedInt8(self._quantised(weight, bias, self.largest_weight()), factor, exact)

    @classmethod
    @cache
    def largest_weight(cls) -> int:
        """The integer that the largest weight of an output channel is rounded to: 127, or 63 where 127 overflows.

        Processors without VNNI instructions add pairs of 8-bit products in 16 bits, in which 2 · 255 · 127 saturates.
        """
        x, weight = torch.ones(32, 64), torch.ones(64, 64)
        y = cls().product(x, PackedInt8(cls._quantised(weight, None, 127), None, None), None)
        return 127 if (y - linear(x, weight)).abs().max() < 1 else 63

    @classmethod
    def _quantised(cls, weight: Tensor, bias: Tensor | None, largest: int) -> Any:
        scale = weight.abs().amax(1).clamp_min(TINY).double() / largest
        zero = torch.zeros(len(scale), dtype=torch.long)
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():  # quantised tensor types are deprecated; the packed product is not
                warnings.simplefilter("ignore")
                quantised = torch.quantize_per_channel(weight.contiguous(), scale, zero, 0, torch.qint8)
            return torch.ops.quantized.linear_prepack(quantised, bias)
        finally:
            torch.backends.quantized.engine = before

    def product(self, input: Tensor, packed: PackedInt8, bias: Tensor | None) -> Tensor:
        weight, factor, exact = packed
        return _int8_product(input, weight, bias, factor, exact, self.scaling.exact, self.scaling.per_row)

    def __deepcopy__(self, memo: dict[int, Any]) -> Int8Kernel:
        return type(self)(self.scaling)  # layers with the same input keep sharing it

    def __reduce__(self) -> tuple[type[PackedKernel], tuple[Any, ...]]:
        return type(self), (self.scaling,)


class OneDNNInt8Kernel(Int8Kernel):
    """The same product computed by oneDNN, fused with the activation: faster for many rows on some processors."""

    uses_amx = True

    @classmethod
    def _quantised(cls, weight: Tensor, bias: Tensor | None, largest: int) -> tuple[Tensor, Tensor, Tensor]:
        """The packed weight, and the scales and zero points of its output channels."""
        scales = weight.abs().amax(1).clamp_min(TINY) / largest
        rounded = (weight / scales[:, None]).round_().to(torch.int8)
        with warnings.catch_warnings():  # torch warns once in a process: here, where it is ignored
            warnings.simplefilter("ignore")
            torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.quint8)
        return torch.ops.onednn.qlinear_prepack(rounded, None), scales, torch.zeros(len(scales), dtype=torch.int32)

    def product(self, input: Tensor, packed: PackedInt8, bias: Tensor | None) -> Tensor:
        return self._product(input, packed, bias, "none", "")

    def activated(self, activation: str, packed: PackedInt8, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        fused = FUSED.get(activation)
        if fused is None or packed.exact is not None or self.scaling.per_row:
            return super().activated(activation, packed, bias)
        return lambda x: self._product(x, packed, bias, *fused)

    def _product(
        self, input: Tensor, packed: PackedInt8, bias: Tensor | None, activation: str, algorithm: str
    ) -> Tensor:
        channels, per_row = self.scaling.exact, self.scaling.per_row
        (weight, scales, zeros), factor, exact = packed
        if not input.numel():
            return input.new_empty(*input.shape[:-1], len(scales))
        return _onednn_int8_product(
            input, weight, scales, zeros, bias, factor, exact, channels, per_row, activation, algorithm
        )


KERNELS: dict[str, tuple[type[PackedKernel], ...]] = {
    "fp32": (Float32Kernel,),
    "bf16": (BFloat16Kernel,),
    "int8": (Int8Kernel, OneDNNInt8Kernel),
}
