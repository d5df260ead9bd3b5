"""What the networks of the comparison learn, for the one training loop: tokens to recall, images to name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.lab.comparison.nets import answer
from glassformer.lab.parts import generator
from glassformer.tasks.data.order import batches
from glassformer.tasks.training import Batch, Optimise, Plan, train

ITEMS, NOISE = 8, 8  # words that are to be recalled, and words that are not
ASK = ITEMS + NOISE  # the word that asks
WORDS = ASK + 1
Pair = tuple[Tensor, Tensor]


def recall(n: int, distance: int, random: torch.Generator) -> Pair:
    """An item, then noise, then the word that asks, `distance` places after the item: which item was it?"""
    item = torch.randint(0, ITEMS, (n, 1), generator=random)
    noise = torch.randint(ITEMS, ASK, (n, distance - 1), generator=random)
    return torch.cat([item, noise, torch.full((n, 1), ASK)], 1), item[:, 0]


def before(n: int, length: int, random: torch.Generator) -> Pair:
    """Items alone: which one is the last but one?"""
    X = torch.randint(0, ITEMS, (n, length), generator=random)
    return X, X[:, -2]


@dataclass(kw_only=True)
class Sequences:
    """Sequences made anew for every batch, each from the seed of its batch."""

    make: Callable[[int, int, torch.Generator], Pair]
    length: int
    size: int
    tests: int
    seed: int
    better: Literal["higher", "lower"] = "higher"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [range(self.size)] * 64

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.make(len(rows), self.length, generator(seed))
        return {"X": X, "y": y}

    def weigh(self, batch: Batch) -> float:
        return float(len(batch["X"]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(answer(model, batch["X"]), batch["y"], reduction="sum")

    def measure(self, model: nn.Module) -> dict[str, float]:
        return {"accuracy": self.accuracy(model, self.length)}

    def accuracy(self, model: nn.Module, length: int) -> float:
        """The share of new sequences of this length that is answered rightly."""
        return right(model, *self.make(self.tests, length, generator(10_000 + self.seed)), answer)


@dataclass(kw_only=True)
class Pictures:
    """Images and classes in memory; the order of an epoch is a function of the seed."""

    X: Tensor
    y: Tensor
    held: Pair
    size: int
    seed: int
    better: Literal["higher", "lower"] = "higher"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return batches(len(self.X), self.size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        chosen = list(rows)
        return {"X": self.X[chosen], "y": self.y[chosen]}

    def weigh(self, batch: Batch) -> float:
        return float(len(batch["X"]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(batch["X"]), batch["y"], reduction="sum")

    def measure(self, model: nn.Module) -> dict[str, float]:
        return {"accuracy": right(model, *self.held)}


def _logits(model: nn.Module, X: Tensor) -> Tensor:
    Y: Tensor = model(X)
    return Y


@torch.no_grad()
def right(model: nn.Module, X: Tensor, y: Tensor, ask: Callable[[nn.Module, Tensor], Tensor] = _logits) -> float:
    """The share of rows whose likeliest answer is theirs."""
    training = model.training
    model.eval()
    pieces = zip(X.split(256), y.split(256), strict=True)
    count = sum(int((ask(model, piece).argmax(-1) == truth).sum()) for piece, truth in pieces)
    model.train(training)
    return count / len(y)


def learn(model: nn.Module, lesson: Sequences | Pictures, *, steps: int, rate: float, seed: int) -> float:
    """AdamW with a tenth of the steps to warm up, then a cosine; the accuracy at the end."""
    optimise = Optimise(rate=rate, warmup=steps // 10)
    done = train(model, lesson, Plan(steps=steps, optimise=optimise, seed=seed))
    if done.stopped == "interrupted":  # what is half trained is no measurement
        raise KeyboardInterrupt
    return lesson.measure(model)["accuracy"]
