"""Early stopping: keep the weights with the best validation metric, and stop when it no longer improves."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from glassformer.train.state import Position


class EarlyStopping:
    """Tracks the first validation metric. `best` is a copy of the best weights, empty if only the last are kept."""

    def __init__(
        self,
        patience: int | None,
        better: Literal["higher", "lower"],
        tensors: dict[str, Tensor],
        *,
        keep_best: bool = True,
    ) -> None:
        self.patience, self.sign = patience, 1 if better == "higher" else -1
        self.best = {name: tensor.detach().clone() for name, tensor in tensors.items()} if keep_best else {}

    @torch.no_grad()
    def update(self, position: Position, tensors: dict[str, Tensor]) -> None:
        """Compare the latest evaluation with the best so far; NaN never counts as best.

        Ties are broken by the lower validation loss, but do not reset the patience counter.
        """
        value = next(iter(position.val.values()), None)
        if value is None:
            return
        loss = position.val.get("loss")
        better = value == value and (position.best is None or self.sign * value > self.sign * position.best)
        tied = value == position.best and loss is not None and loss < (position.best_loss or -math.inf)
        position.stale = 0 if better else position.stale + 1
        if better or tied:
            position.best, position.best_loss, position.best_step = value, loss, position.step
            for name, copy in self.best.items():
                copy.copy_(tensors[name])

    def should_stop(self, position: Position) -> bool:
        return self.patience is not None and position.stale >= self.patience
