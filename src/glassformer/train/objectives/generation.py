"""`train generate`: language modeling on plain text, or fine-tuning on conversations."""

from __future__ import annotations

from torch import nn

from glassformer.data.chats import is_chat
from glassformer.data.text import is_table
from glassformer.train.args import TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.objectives import chat, language_modeling
from glassformer.train.splits import data_paths


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build a language model and its objective; tables with a column of messages are conversations."""
    first, second = data_paths(args)
    if is_table(first) and is_chat(first, args.column_names):
        return chat.build(args, first, second)
    return language_modeling.build(args, first, second)
