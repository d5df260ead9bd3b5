"""Training: `glassformer.train(task, data, …)` and the loop, objectives and arguments behind it.

The package itself is callable: `glassformer.train("classify", "photos/")` calls `train.trainer.train`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.train.args import TrainArgs
    from glassformer.train.loop import Trained, fit
    from glassformer.train.objective import Batch, Objective, TaskObjective
    from glassformer.train.progress import Progress, progress_bar
    from glassformer.train.trainer import run, train

_NAMES = {
    "Batch": "objective",
    "Objective": "objective",
    "Progress": "progress",
    "TaskObjective": "objective",
    "TrainArgs": "args",
    "Trained": "loop",
    "fit": "loop",
    "progress_bar": "progress",
    "run": "trainer",
    "train": "trainer",
}
__all__ = [
    "Batch", "Objective", "Progress", "TaskObjective", "TrainArgs", "Trained", "fit", "progress_bar", "run", "train",
]  # fmt: skip
__getattr__ = on_first_use(__name__, _NAMES)


class _Callable(ModuleType):
    """A callable module type, so that `glassformer.train(task, data)` is the public API."""

    def __call__(self, *args: Any, **options: Any) -> Trained:
        from glassformer.train.trainer import train

        return train(*args, **options)


sys.modules[__name__].__class__ = _Callable
