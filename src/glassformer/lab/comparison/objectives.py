"""Training objectives of the comparison: token recall and image classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from glassformer.data.order import batches
from glassformer.lab.tensors import generator
from glassformer.lab.training import ClassificationObjective, Examples, train
from glassformer.train import Batch, TrainArgs

ITEMS, NOISE = 8, 8  # tokens to recall, and noise tokens in between
ASK = ITEMS + NOISE  # the query token
VOCABULARY = ASK + 1
TEST, VALIDATION = 20_000, 30_000  # added to a seed: examples that occur in no training batch


def recall(n: int, distance: int, random: torch.Generator) -> Examples:
    """Generate an item, noise, and the query token `distance` positions after the item; the label is the item."""
    item = torch.randint(0, ITEMS, (n, 1), generator=random)
    noise = torch.randint(ITEMS, ASK, (n, distance - 1), generator=random)
    return torch.cat([item, noise, torch.full((n, 1), ASK)], 1), item[:, 0]


def previous(n: int, length: int, random: torch.Generator) -> Examples:
    """Generate sequences of items; the label is the second-to-last item."""
    X = torch.randint(0, ITEMS, (n, length), generator=random)
    return X, X[:, -2]


class EvalScore(NamedTuple):
    accuracy: float
    loss: float  # mean cross-entropy


@torch.no_grad()
def score(model: nn.Module, X: Tensor, y: Tensor) -> EvalScore:
    """Return accuracy and mean cross-entropy over the examples, in evaluation mode."""
    training = model.training
    model.eval()
    correct, loss = 0, 0.0
    for piece, truth in zip(X.split(256), y.split(256), strict=True):
        logits = model(piece)
        correct += int((logits.argmax(-1) == truth).sum())
        loss += float(cross_entropy(logits, truth, reduction="sum"))
    model.train(training)
    return EvalScore(correct / len(y), loss / len(y))


@dataclass(kw_only=True)
class SequenceObjective(ClassificationObjective):
    """Sequences generated from the seed of each batch."""

    make: Callable[[int, int, torch.Generator], Examples]
    length: int
    batch_size: int

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [range(self.batch_size)] * 64

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.make(len(rows), self.length, generator(seed))
        return {"X": X, "y": y}

    def examples(self, n: int, seed: int, *, length: int | None = None, split: int = TEST) -> Examples:
        """Generate sequences that were not trained on."""
        return self.make(n, self.length if length is None else length, generator(split + seed))


@dataclass(kw_only=True)
class ImageObjective(ClassificationObjective):
    """Images in memory, shifted at random by up to `shift` pixels."""

    X: Tensor
    y: Tensor
    batch_size: int
    seed: int
    shift: int = 0

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return batches(len(self.X), min(self.batch_size, len(self.X)), self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        X, y = self.X[list(rows)], self.y[list(rows)]
        if self.shift:
            random = generator(seed)
            offsets = torch.randint(-self.shift, self.shift + 1, (len(X), 2), generator=random).tolist()
            X = torch.stack(
                [shifted(image[None], down, right)[0] for image, (down, right) in zip(X, offsets, strict=True)]
            )
        return {"X": X, "y": y}


def shifted(X: Tensor, down: int, right: int) -> Tensor:
    """Shift images (b, c, h, w) by whole pixels; vacated pixels take the smallest value of the images."""
    rows, columns = X.shape[-2:]
    moved = pad(X, (right, -right, down, -down), value=float(X.min()))
    return moved[..., :rows, :columns]


def train_network(model: nn.Module, objective: ClassificationObjective, *, steps: int, lr: float, seed: int) -> None:
    """Train with AdamW, with linear warm-up over a tenth of the steps, then a cosine schedule."""
    train(model, objective, TrainArgs(steps=steps, lr=lr, warmup=steps // 10, seed=seed, weight_decay=0.01))


def search(rates: Sequence[float], cases: Sequence[int], trial: Callable[[float, int], EvalScore]) -> dict[str, Any]:
    """Find the learning rate with the best mean validation accuracy over the cases; ties go to the lower mean loss."""
    trials = [
        {"lr": lr, "case": case, **trial(lr, case)._asdict()}
        for lr in rates
        for case in cases
    ]  # fmt: skip
    means = {
        lr: (
            sum(each["accuracy"] for each in trials if each["lr"] == lr) / len(cases),
            -sum(each["loss"] for each in trials if each["lr"] == lr) / len(cases),
        )
        for lr in rates
    }
    return {"lr": max(rates, key=lambda lr: means[lr]), "trials": trials}
