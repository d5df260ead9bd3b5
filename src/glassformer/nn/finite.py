"""A NaN is an error that names its place, never an answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.values import has_values
from glassformer.errors import InputError


def require_finite(Y: Tensor, model: nn.Module) -> Tensor:
    """Y itself, if every number of it is finite; otherwise an error that names the weight that is not, if one is.

    A NaN or an infinity is its own extreme, and looking for extremes copies nothing.
    """
    if not has_values(Y) or not Y.numel() or torch.isfinite(torch.stack(torch.aminmax(Y.detach()))).all():
        return Y
    require_finite_weights(model)
    raise InputError(
        f"the output of {type(model).__name__} is not finite although every weight is",
        "look for an input that is not finite, or too large for its number type",
    )


def require_finite_weights(model: nn.Module) -> None:
    for name, weight in model.named_parameters():
        wrong = (~torch.isfinite(weight)).nonzero()
        if len(wrong):
            first = tuple(wrong[0].tolist())
            raise InputError(
                f"weight {name} holds {weight[first].item()} at {list(first)}", "load it again, or an earlier one"
            )
