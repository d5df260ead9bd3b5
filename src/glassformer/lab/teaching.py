"""A small network taught by the one training loop, on examples that are made anew for every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.lab.parts import generator
from glassformer.tasks.training import Batch, Optimise, Plan, train

Make = Callable[[torch.Generator], tuple[Tensor, Tensor]]  # inputs, and the class of each answer
Ask = Callable[[Tensor], Tensor]  # inputs in, logits out


@dataclass(kw_only=True)
class Made:
    """loss = −Σ log p(y | x) over the examples that a batch's seed makes."""

    make: Make
    ask: Ask
    better: Literal["higher", "lower"] = "higher"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [[0]] * 1000  # examples have no rows: each batch is a seed

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.make(generator(seed))
        return {"X": X, "y": y}

    def weigh(self, batch: Batch) -> float:
        return float(batch["y"].numel())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = self.ask(batch["X"])
        return cross_entropy(logits.flatten(0, -2), batch["y"].flatten(), reduction="sum")

    @torch.no_grad()
    def measure(self, model: nn.Module) -> dict[str, float]:
        X, y = self.make(generator(0))
        return {"accuracy": float((self.ask(X).argmax(-1) == y).float().mean())}


def teach(model: nn.Module, make: Make, *, steps: int, rate: float, seed: int, ask: Ask | None = None) -> float:
    """Adam at one rate; gives the accuracy at the end. Whoever is interrupted has taught nothing."""
    optimise = Optimise(rate=rate, schedule="constant", decay=0.0, clip=None)
    lesson = Made(make=make, ask=model if ask is None else ask)
    done = train(model, lesson, Plan(steps=steps, optimise=optimise, seed=seed))
    if done.stopped == "interrupted":
        raise KeyboardInterrupt
    return lesson.measure(model)["accuracy"]
