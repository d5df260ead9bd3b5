"""θ̄ ← θ̄ + (1 − d)(θ − θ̄): exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name; tied tensors appear once."""
    saved = model.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**dict(model.named_parameters()), **buffers}


class EMA:
    """d = min(decay, (1 + t)/(10 + t)) at update t, so that even a short run forgets its random initialisation."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.source = tensors_of(model)
        self.tensors = {name: tensor.detach().clone() for name, tensor in self.source.items()}
        averaged = [name for name, tensor in self.source.items() if tensor.is_floating_point()]
        self._averages = [self.tensors[name] for name in averaged]
        self._weights = [self.source[name].detach() for name in averaged]
        self._copied = [name for name in self.source if name not in set(averaged)]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(self._averages, self._weights, step)
        for name in self._copied:
            self.tensors[name].copy_(self.source[name])


@torch.no_grad()
def load_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors into the model in place."""
    for name, tensor in tensors_of(model).items():
        tensor.copy_(tensors[name])


@contextmanager
def swapped(model: nn.Module, tensors: dict[str, Tensor] | None) -> Iterator[None]:
    """Temporarily replace the model's tensors inside the block; None leaves them unchanged."""
    if tensors is None:
        yield
        return
    own = {name: tensor.detach().clone() for name, tensor in tensors_of(model).items()}
    load_tensors(model, tensors)
    try:
        yield
    finally:
        load_tensors(model, own)
