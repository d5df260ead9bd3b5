"""Training the small networks of the lab with the training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.lab.tensors import generator
from glassformer.progress import report
from glassformer.train import Batch, TrainArgs
from glassformer.train import fit as run_training
from glassformer.train.progress import Callback

Examples = tuple[Tensor, Tensor]  # inputs and labels
Make = Callable[[torch.Generator], Examples]
Logits = Callable[[Tensor], Tensor]  # inputs to logits


@dataclass(kw_only=True)
class ClassificationObjective:
    """loss = −Σ log p(y | x) over batches {"X": inputs, "y": labels}; subclasses define `epoch` and `batch`."""

    better: Literal["higher", "lower"] = "higher"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        raise NotImplementedError

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        raise NotImplementedError

    def count(self, batch: Batch) -> float:
        return float(batch["y"].numel())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(batch["X"]).flatten(0, -2), batch["y"].flatten(), reduction="sum")

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {}


@dataclass(kw_only=True)
class GeneratedExamples(ClassificationObjective):
    """Examples generated from the seed of each batch."""

    make: Make
    logits: Logits

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [[0]] * 1000  # generated examples have no rows: a batch is a seed

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.make(generator(seed))
        return {"X": X, "y": y}

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(self.logits(batch["X"]).flatten(0, -2), batch["y"].flatten(), reduction="sum")

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        X, y = self.make(generator(0))
        return {"accuracy": float((self.logits(X).argmax(-1) == y).float().mean())}


def train(model: nn.Module, objective: ClassificationObjective, args: TrainArgs, *callbacks: Callback) -> None:
    """Run the training loop to its end, without checkpoints, evaluations or messages."""
    quiet = replace(args, eval_every=0, save_every=0, keep="last")
    silent = lambda message: None  # messages would disturb the progress bar
    done = run_training(model, objective, quiet, callbacks=callbacks, say=silent)
    if done.stopped == "interrupted":  # a partially trained network is not a measurement
        raise KeyboardInterrupt


def fit(model: nn.Module, make: Make, *, steps: int, lr: float, seed: int, logits: Logits | None = None) -> float:
    """Train with Adam at a constant learning rate and return the final accuracy."""
    objective = GeneratedExamples(make=make, logits=model if logits is None else logits)
    constant = TrainArgs(steps=steps, lr=lr, schedule="constant", weight_decay=0.0, grad_clip=0.0, seed=seed, warmup=0)
    train(model, objective, constant, lambda now: report("Training step", now.step, now.steps))
    return objective.evaluate(model)["accuracy"]
