"""Training small networks with the training loop, on examples generated for every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.lab.tensors import generator
from glassformer.train import Batch, TrainArgs
from glassformer.train import fit as run_training

Make = Callable[[torch.Generator], tuple[Tensor, Tensor]]  # inputs and labels
Logits = Callable[[Tensor], Tensor]  # inputs to logits


@dataclass(kw_only=True)
class GeneratedExamples:
    """loss = −Σ log p(y | x) over examples generated from the seed of each batch."""

    make: Make
    logits: Logits
    better: Literal["higher", "lower"] = "higher"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [[0]] * 1000  # generated examples have no rows: a batch is a seed

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.make(generator(seed))
        return {"X": X, "y": y}

    def count(self, batch: Batch) -> float:
        return float(batch["y"].numel())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(self.logits(batch["X"]).flatten(0, -2), batch["y"].flatten(), reduction="sum")

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        X, y = self.make(generator(0))
        return {"accuracy": float((self.logits(X).argmax(-1) == y).float().mean())}


def fit(model: nn.Module, make: Make, *, steps: int, lr: float, seed: int, logits: Logits | None = None) -> float:
    """Train with Adam at a constant learning rate and return the final accuracy."""
    objective = GeneratedExamples(make=make, logits=model if logits is None else logits)
    done = run_training(
        model,
        objective,
        TrainArgs(
            steps=steps,
            lr=lr,
            schedule="constant",
            weight_decay=0.0,
            grad_clip=0.0,
            seed=seed,
            warmup=0,
            eval_every=0,
            save_every=0,
            keep="last",
        ),
        say=lambda message: None,  # estimates of the remaining time would mix with the lab's own progress
    )
    if done.stopped == "interrupted":
        raise KeyboardInterrupt
    return objective.evaluate(model)["accuracy"]
