"""Checks that raise an error naming the location of a NaN or infinity, instead of returning it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from glassformer.core.values import has_values
from glassformer.errors import InputError

_UNCHECKED: ContextVar[bool] = ContextVar("unchecked_finite", default=False)


@contextmanager
def unchecked_finite() -> Iterator[None]:
    """Skip the checks below: the training loop checks the loss itself and keeps the batch that caused the error."""
    token = _UNCHECKED.set(True)
    try:
        yield
    finally:
        _UNCHECKED.reset(token)


def require_finite(Y: Tensor, model: nn.Module) -> Tensor:
    """Return Y if all its values are finite; otherwise raise an error that names the non-finite weight, if any.

    NaN and infinity propagate to the minimum or maximum, which are computed without a copy.
    """
    if not has_values(Y) or not Y.numel() or _UNCHECKED.get():
        return Y
    if torch.isfinite(torch.stack(torch.aminmax(Y.detach()))).all():
        return Y
    require_finite_weights(model)
    raise InputError(
        f"the output of {type(model).__name__} is not finite although every weight is",
        "look for an input that is not finite, or too large for its dtype",
    )


def require_finite_weights(model: nn.Module) -> None:
    for name, weight in model.named_parameters():
        wrong = (~torch.isfinite(weight)).nonzero()
        if len(wrong):
            first = tuple(wrong[0].tolist())
            raise InputError(
                f"weight {name} is {weight[first].item()} at {list(first)}",
                "load the weights again, or an earlier checkpoint",
            )
