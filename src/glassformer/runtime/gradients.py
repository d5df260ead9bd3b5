"""y = x Wᵀ + b with gradients, computed by oneDNN.

On processors on which MKL, torch's usual library, does not use AVX-512, oneDNN is faster:

    ∂x = ∂y W        ∂W = ∂yᵀ x        ∂b = Σ ∂y
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.nn.functional import linear

from glassformer.core.values import has_values

# oneDNN reorders the weight in every call, which takes as long as the product of a few rows.
MANY_ROWS = 64
_product = torch.ops.mkldnn._linear_pointwise.default._op


def linear_with_gradients(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b by oneDNN if it can compute the product and its gradients, otherwise by torch."""
    if not _supported(input, weight) or (bias is not None and not _plain(bias)):
        return linear(input, weight, bias)
    rows = input.reshape(-1, input.shape[-1])
    return _OneDNNLinear.apply(rows, weight, bias).view(*input.shape[:-1], len(weight))


def _supported(input: Tensor, weight: Tensor) -> bool:
    """Whether this is the ordinary case: dense float32 on the CPU, no autocast, no compiler, no functorch transform."""
    return (
        _plain(input)
        and _plain(weight)
        and input.numel() >= MANY_ROWS * input.shape[-1] > 0
        and len(weight) > 0
        and has_values(input)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )


def _plain(tensor: Tensor) -> bool:
    """Whether a tensor is dense, float32 and on the CPU, and not a subclass such as a DTensor."""
    dense = type(tensor) in (Tensor, Parameter) and tensor.layout == torch.strided
    return dense and tensor.dtype == torch.float32 and tensor.device.type == "cpu"


class _OneDNNLinear(torch.autograd.Function):
    """The product of input rows and a weight. A second derivative is computed by torch."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled() or not _plain(gradient):  # `create_graph=True`: the gradient is differentiated again
            dx = gradient @ weight if wanted[0] else None
            dw = gradient.mT @ rows if wanted[1] else None
        else:
            dx = _product(gradient, weight.mT, None, "none", [], "") if wanted[0] else None
            dw = _product(gradient.mT, rows.mT, None, "none", [], "") if wanted[1] else None
        return dx, dw, gradient.sum(0) if wanted[2] else None
