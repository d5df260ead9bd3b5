"""A NaN is an error that names its place, never an answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.errors import InputError


def require_finite(Y: Tensor, model: nn.Module) -> Tensor:
    """Y itself, if every number of it is finite; otherwise an error that names the weight that is not, if one is.

    Skipped where a compiler traces the model: it would split the graph.
    """
    if torch.compiler.is_compiling() or torch.isfinite(Y).all():
        return Y
    require_finite_weights(model)
    raise InputError(
        f"the output of {type(model).__name__} is not finite although every weight is",
        "look for an input that is not finite, or too large for its number type",
    )


def require_finite_weights(model: nn.Module) -> None:
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            wrong = weight.detach().flatten()
            first = int((~torch.isfinite(wrong)).nonzero()[0])
            raise InputError(
                f"weight {name} holds {float(wrong[first])} at place {first}", "load it again, or an earlier one"
            )
