"""Training objectives: data, loss and metrics of a task. The training loop knows nothing else about the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from glassformer.data.faults import Faults
from glassformer.data.stream import Stream, Window
from glassformer.train.examined import Examined

Batch = Mapping[str, Tensor]


class Objective(Protocol):
    """loss = Σ over predictions; the loop divides by the number of predictions in the whole step.

    An objective must be picklable, since worker processes may build its batches. It may have an attribute `faults`
    (unusable rows) and a method `fingerprint()` (see `Fingerprinted`).
    """

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Whether higher or lower is better for the first metric of `evaluate`."""
        ...

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """Return the rows of every batch of an epoch, which depend only on the objective's seed and `number`."""
        ...

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        """Read and augment rows, with all randomness drawn from `seed`. Returns None if no row is usable."""
        ...

    def count(self, batch: Batch) -> float:
        """Return the number of predictions in a batch: images, target tokens, …"""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over all predictions."""
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return metrics on the validation data."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """An objective that can verify that a resumed run has the same settings and data."""

    def fingerprint(self) -> dict[str, Any]:
        """Return as JSON every setting that affects the result, and a fingerprint of the data (`data.fingerprint`)."""
        ...


class TaskObjective(Objective):
    """Base class of the objectives built by `train(task, data)`."""

    faults: Faults
    default_lr: float = 1e-3
    """The learning rate unless --lr is given."""
    default_epochs: float | None = None
    """Passes over the data unless --epochs or --steps is given; None means the default number of steps."""
    described: tuple[str, int] | None = None
    """The kind of examples ("images", "texts") and their number, to find a similar run in `measured_runs`."""
    understood: tuple[str, ...] = ()
    """How the data was interpreted: columns, classes, examples, and remarks on what looks wrong (`data.remarks`)."""
    notes: tuple[str, ...] = ()
    """Choices made for the user, and the option that changes each."""

    augment: Any = None
    """The augmentation of the training data; None if the task has none."""
    batch_unit: str = "rows"
    """What the batch size counts."""

    stream: Stream | None = None
    """The training data if it is a stream; each of its windows is an epoch."""

    def summary(self) -> str:
        """Describe the data in one line: its size and how much of it is used for validation."""
        raise NotImplementedError

    def batch_summary(self) -> str:
        """Describe the batch size in its unit: "64 images"."""
        sizes = (("batch_size", self.batch_unit), ("batch_tokens", "tokens"), ("batch_seconds", "seconds of audio"))
        return next(f"{getattr(self, name):g} {unit}" for name, unit in sizes if hasattr(self, name))

    train: Any
    """The training data: a `RowDataset`, if the task can be trained on a stream."""

    def refill(self, window: Window) -> None:
        """Replace the training data by a window of a stream; columns, labels, sizes and tokenizer do not change."""
        self.train = self.train.like(window)
        self.faults.merge(self.train.faults)
        self.faults.check()

    def examine(self, model: nn.Module) -> Examined | None:
        """Return validation results in detail: scores of each class, confusions, mistakes. None if there are none."""
        return None

    def finish(self, model: nn.Module) -> None:
        """Convert layers that only training needs into plain weights, in place, after the last step."""

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        """Save a folder that `load` and the task's pipeline accept."""
        raise NotImplementedError
