"""Training: `glassformer.train(task, data, …)` and the loop, objectives and arguments behind it.

The package itself is callable: `glassformer.train("classify", "photos/")` calls `train.trainer.train`.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.train.args import TrainArgs
    from glassformer.train.loop import Trained, fit
    from glassformer.train.objective import Batch, Objective, TaskObjective
    from glassformer.train.progress import Progress, progress_bar
    from glassformer.train.trainer import run_training, train

_NAMES = {
    "Batch": "objective",
    "Objective": "objective",
    "Progress": "progress",
    "TaskObjective": "objective",
    "TrainArgs": "args",
    "Trained": "loop",
    "fit": "loop",
    "progress_bar": "progress",
    "run_training": "trainer",
    "train": "trainer",
}
__all__ = [
    "Batch", "Objective", "Progress", "TaskObjective", "TrainArgs", "Trained", "fit", "progress_bar", "run_training",
    "train",
]  # fmt: skip
__getattr__ = on_first_use(__name__, _NAMES)


class _Callable(ModuleType):
    """A callable module type, so that `glassformer.train(task, data)` is the public API."""

    def __call__(self, task: str, data: Any, **options: Any) -> Trained:
        from glassformer.train.trainer import train

        return train(task, data, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of `train` with every field of `TrainArgs`, for completion in notebooks."""
        from glassformer.train.args import TrainArgs
        from glassformer.train.trainer import train

        own = [p for p in inspect.signature(train).parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = (p for p in inspect.signature(TrainArgs).parameters.values() if p.name not in ("task", "data"))
        return inspect.Signature([*own, *options], return_annotation="Trained")


sys.modules[__name__].__class__ = _Callable
