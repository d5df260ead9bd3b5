"""`train generate`: language modeling on plain text, or fine-tuning on conversations."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from glassformer.data.chats import is_chat
from glassformer.data.rows import Source
from glassformer.data.tables import SUFFIXES
from glassformer.train.args import TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.objectives import chat, language_modeling
from glassformer.train.splits import data_paths


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build a language model and its objective; tables with a column of messages are conversations."""
    first, second = data_paths(args)
    if _is_table(first) and is_chat(first, args.column_names):
        return chat.build(args, first, second)
    return language_modeling.build(args, first, second)


def _is_table(source: Source) -> bool:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():  # plain text if it has any, else shards of a table
            return not any(path.rglob("*.txt")) and any(one.suffix.lower() in SUFFIXES for one in path.iterdir())
        return path.suffix.lower() in SUFFIXES
    if isinstance(source, list | tuple):
        return all(_is_table(one) for one in source)
    return True  # rows of a Python object
