"""Training objectives, one per module, each with a `build(args)` that creates the model and objective of a task."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

from torch import nn

from glassformer.data.stream import Stream, is_stream
from glassformer.errors import ConfigError, InputError
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
    if is_stream(args.data):
        return _build_streaming(args, module)
    model, objective = module.build(args)
    objective.notes = (*objective.notes, *split_notes(args))
    return model, objective


def _build_streaming(args: TrainArgs, module: Any) -> tuple[nn.Module, TaskObjective]:
    """Build from the first window of a stream; the classes are those of the validation data."""
    for name, value in (("val", args.val), ("steps", args.steps)):
        if value is None:
            why = "it is not read twice" if name == "val" else "its length is not known"
            raise ConfigError(f"training on a stream needs --{name}, as {why}", f"add --{name}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        fact = "a stream has one reader, but there are several processes"
        raise ConfigError(fact, "give them shards as files, which they share, or start one process")
    stream = args.data if isinstance(args.data, Stream) else Stream.open(str(args.data))
    window = stream.window(0)
    if window is None:
        why = f" ({stream.broken})" if stream.broken else ""
        raise InputError(f"the stream has no examples{why}", "check its data")
    model, objective = module.build(replace(args, data=window))
    objective.stream = stream
    note = f"the data is a stream: the above are its first {len(window):,} examples; each window is shuffled"
    objective.notes = (*objective.notes, note)
    return model, objective
