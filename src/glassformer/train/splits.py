"""Training and validation data of a run, and the model to fine-tune."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.checkpoints import load
from glassformer.data.faults import Faults
from glassformer.data.order import held_out
from glassformer.data.sources import DATASETS, open_data
from glassformer.errors import InputError
from glassformer.pipelines.loading import find_model
from glassformer.train.args import TrainArgs

VAL_SPLITS = ("valid", "val", "validation", "dev", "test")  # the first that exists is used for validation
VAL_FRACTION = 0.1


class Dataset(Protocol):
    """A dataset with rows of any kind; `faults` records the rows skipped when it was opened."""

    faults: Faults

    def __len__(self) -> int: ...

    def part(self, rows: NDArray[np.int64]) -> Self: ...


D = TypeVar("D", bound=Dataset)


def data_paths(args: TrainArgs, suffix: str = "") -> tuple[Path, Path | None]:
    """Return the paths of the training and validation data; None means a part of the training data."""
    assert args.data is not None
    whole = open_data(args.data) if args.data in DATASETS else Path(args.data)
    if not whole.exists():
        names = ", ".join(DATASETS)
        raise InputError(f"{args.data} does not exist", f"give a folder, a file, or the name of a dataset ({names})")
    first = whole / f"train{suffix}"
    found = [whole / f"{name}{suffix}" for name in VAL_SPLITS if (whole / f"{name}{suffix}").exists()]
    if args.val is not None:
        given = Path(args.val)
        if not given.exists():
            raise InputError(f"--val {args.val} does not exist", "give validation data that exists")
        return (first if first.exists() else whole), given
    return (first, found[0] if found else None) if first.exists() else (whole, None)


def split(whole: D, val: D | None, seed: int) -> tuple[D, D, Faults]:
    """Return training data, validation data (10 % of the former if there is none), and the rows skipped on opening."""
    faults = Faults()
    for opened in (whole,) if val is None else (whole, val):
        faults.remember(opened.faults)
    if val is not None:
        return whole, val, faults
    rows, rest = held_out(len(whole), VAL_FRACTION, seed)
    return whole.part(rows), whole.part(rest), faults


def base_model(args: TrainArgs, what: str, suits: Callable[[nn.Module], bool]) -> nn.Module | None:
    """Return the model to fine-tune, or None to train from scratch. `what` describes the models that suit the task."""
    if args.from_ is None:
        return None
    model = load(find_model(args.from_), dtype=torch.float32)
    if not suits(model):
        raise InputError(f"--from {args.from_} is a {type(model).__name__}", f"fine-tune {what}")
    model.requires_grad_(True)
    return model
