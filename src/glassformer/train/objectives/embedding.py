"""`train embed`: masked language modeling on sentences, or contrastive learning on pairs of sentences."""

from __future__ import annotations

from torch import nn

from glassformer.data.columns import are_names
from glassformer.data.rows import open_reader
from glassformer.train.args import TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.objectives import contrastive, mlm
from glassformer.train.splits import data_paths


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build a sentence encoder and its objective; the data are pairs if they have a column for the second sentence."""
    args.reject("sentence embeddings", "image_size", "augment", "augmentation", "label_smoothing")
    args.reject("sentence embeddings", "problem_type")
    first, second = data_paths(args)
    reader, _, _ = open_reader(first, ("line", "text", "text_pair"), args.column_names)
    if "text_pair" in args.column_names or are_names(reader.names, ("text_pair",)):
        return contrastive.build(args, first, second)
    return mlm.build(args)
