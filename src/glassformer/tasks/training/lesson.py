"""What is learned from what: the part of a training that differs from task to task. The loop knows nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

Batch = Mapping[str, Tensor]


class Lesson(Protocol):
    """loss = Σ over predictions of how wrong each is; the loop divides by how many there were in the whole step.

    A lesson pickles, since its batches may be made in other processes. It may have an attribute `faults` that tells
    what could not be read, and `about()` (`Described`).
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


@runtime_checkable
class Described(Protocol):
    """A lesson that says what it teaches, and from what: a run that has begun with it goes on with the same alone."""

    def about(self) -> dict[str, Any]:
        """JSON: all that changes where a run goes, with a fingerprint of the data (`data.fingerprint`)."""
        ...
