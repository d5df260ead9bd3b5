"""What is learned from what: the part of a training that differs from task to task. The loop knows nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from torch import Tensor, nn

Batch = Mapping[str, Tensor]


class Lesson(Protocol):
    """loss = Σ over predictions of how wrong each is; the loop divides by how many there were in the whole step.

    A lesson pickles, since its batches may be made in other processes. It may have an attribute `faults` that tells
    what could not be read.
    """

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Which way the first number of `measure` improves."""
        ...

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """The rows of every batch: a function of the lesson's own seed and the number alone."""
        ...

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        """Reads rows; augments from `seed` alone; leaves faulty rows out and counts them. None if nothing is left."""
        ...

    def weigh(self, batch: Batch) -> float:
        """How many predictions are in it: images, target tokens, …"""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over those predictions."""
        ...

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Numbers on held-out data."""
        ...
