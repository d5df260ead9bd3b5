"""The best first number of all measurements so far, the weights that had it, and how long ago that was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor


@dataclass
class Place:
    """How far a run is: what a state keeps beside its tensors."""

    step: int = 0
    epoch: int = 0
    number: int = 0  # of the next batch in the epoch
    batches: int = 0  # in the epoch: another number on resuming is other data
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # measurements since the best
    held_out: dict[str, float] = field(default_factory=dict)


class Judge:
    """Keeps copies of the best weights if the plan has patience; without it nothing is stopped and nothing copied."""

    def __init__(self, patience: int | None, better: Literal["higher", "lower"], tensors: dict[str, Tensor]) -> None:
        self.patience, self.sign = patience, 1 if better == "higher" else -1
        self.best = {} if patience is None else {name: tensor.detach().clone() for name, tensor in tensors.items()}

    @torch.no_grad()
    def judge(self, place: Place, tensors: dict[str, Tensor]) -> None:
        """Whether the newest measurement is the best; NaN never is."""
        value = next(iter(place.held_out.values()), None)
        if value is None:
            return
        if value == value and (place.best is None or self.sign * value > self.sign * place.best):
            place.best, place.best_step, place.stale = value, place.step, 0
            for name, copy in self.best.items():
                copy.copy_(tensors[name])
        else:
            place.stale += 1

    def gives_up(self, place: Place) -> bool:
        return self.patience is not None and place.stale >= self.patience
