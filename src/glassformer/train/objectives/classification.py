"""`train classify`: image or text classification, depending on the data and the model to fine-tune."""

from __future__ import annotations

from torch import nn

from glassformer.data.columns import are_names
from glassformer.data.rows import Source, TextFolders, locate, open_reader, split_of
from glassformer.train.args import TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.objectives import image_classification, text_classification
from glassformer.train.splits import data_paths


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build a classifier and its objective from labelled images or texts."""
    first, second = data_paths(args)
    if args.problem_type is not None or _is_text(first, args):
        return text_classification.build(args, first, second)
    return image_classification.build(args, first, second)


def _is_text(source: Source, args: TrainArgs) -> bool:
    """Return whether the examples are texts: files, Pillow images, arrays and tensors are images."""
    given = args.column_names
    if given:
        return "image" not in given
    reader, root, where = open_reader(source, ("image", "label", "text", "tokens", "tags"), given)
    rows = [] if isinstance(reader, TextFolders) else reader.sample()
    for name, value in rows[0].items() if rows else ():
        if isinstance(value, str) and locate(root, value, "image", split_of(where)):
            return False
        if isinstance(value, dict) or not isinstance(value, str | int | float | list | None):
            return False
        if are_names([name], ("text", "tokens")):
            return True
    first = rows[0] if rows else {}
    others = [value for name, value in first.items() if not are_names([name], ("label",))]
    if any(isinstance(value, str) and " " in value for value in others):  # in that case an `id` does not name an image
        return True
    return not are_names(list(reader.names), ("image",))
