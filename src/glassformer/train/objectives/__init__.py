"""Training objectives, one per module, each with a `build(args)` that creates the model and objective of a task."""

from __future__ import annotations

from importlib import import_module

from torch import nn

from glassformer.errors import ConfigError
from glassformer.train.args import TASKS, TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.splits import split_notes

MODULES = {
    "classify": "classification",
    "translate": "translation",
    "transcribe": "transcription",
    "generate": "generation",
    "embed": "embedding",
}


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build the model and the objective of `args.task`."""
    if args.task is None:
        raise ConfigError("no task is given", f"choose {', '.join(TASKS)}")
    if args.task != "transcribe":
        args.reject(f"train {args.task}", "language")
    module = import_module(f"glassformer.train.objectives.{MODULES[args.task]}")
    model, objective = module.build(args)
    objective.notes = (*objective.notes, *split_notes(args))
    return model, objective
