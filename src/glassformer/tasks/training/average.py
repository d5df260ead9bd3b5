"""θ̄ ← θ̄ + (1 − d)(θ − θ̄): the running average of the weights, which often does better than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


def kept(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor that makes the model what it is: parameters, and the buffers that its state has, each once."""
    saved = model.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**dict(model.named_parameters()), **buffers}


class Average:
    """d = min(decay, (1 + t)/(10 + t)) at update t, so that a short run does not remember its random start."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.source = kept(model)
        self.tensors = {name: tensor.detach().clone() for name, tensor in self.source.items()}
        moving = [name for name, tensor in self.source.items() if tensor.is_floating_point()]
        self._moving = [self.tensors[name] for name in moving]
        self._towards = [self.source[name].detach() for name in moving]
        self._counts = [name for name in self.source if name not in set(moving)]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(self._moving, self._towards, step)
        for name in self._counts:
            self.tensors[name].copy_(self.source[name])


@torch.no_grad()
def put(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """The values into the model, in place."""
    for name, tensor in kept(model).items():
        tensor.copy_(tensors[name])


@contextmanager
def lent(model: nn.Module, tensors: dict[str, Tensor] | None) -> Iterator[None]:
    """The model with these values for a while; None is its own."""
    if tensors is None:
        yield
        return
    own = {name: tensor.detach().clone() for name, tensor in kept(model).items()}
    put(model, tensors)
    try:
        yield
    finally:
        put(model, own)
