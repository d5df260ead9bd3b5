"""Training and validation data of a run, and the model to fine-tune."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.checkpoints import load_folder
from glassformer.data.archives import is_archive, unpacked
from glassformer.data.columns import NAMES
from glassformer.data.faults import Faults
from glassformer.data.order import held_out, stratified
from glassformer.data.python import reader_of
from glassformer.data.rows import Source, find_split
from glassformer.data.sources import DATASETS, open_data
from glassformer.data.stream import is_stream
from glassformer.data.tables import DELIMITED, SUFFIXES, open_table
from glassformer.data.webdataset import is_shard, matching
from glassformer.errors import InputError
from glassformer.pipelines.loading import find_model
from glassformer.train.args import TrainArgs

VAL_FRACTION = 0.1


class Dataset(Protocol):
    """A dataset with rows of any kind; `faults` records the rows skipped when it was opened."""

    @property
    def faults(self) -> Faults: ...

    def __len__(self) -> int: ...

    def part(self, rows: NDArray[np.int64]) -> Self: ...


D = TypeVar("D", bound=Dataset)


def data_paths(args: TrainArgs) -> tuple[Source, Source | None]:
    """Return the sources of the training and validation data; None means that part of the training data is used."""
    assert args.data is not None
    val = None if args.val is None else opened(args.val, "--val")
    whole = opened(args.data, "")
    if not isinstance(whole, Path) or not whole.is_dir():
        return whole, val
    if isinstance(val, Path) and val.is_dir():
        val = find_split(val, "validation") or val
    first = find_split(whole, "train")
    if first is None:
        return whole, val
    own = find_split(whole, "validation") or find_split(whole, "test")
    return first, val or (None if _unlabelled(first, own) else own)


def validation_source(args: TrainArgs) -> str:
    """Describe the validation data without naming folders."""
    if args.val is not None:
        return Path(args.val).name if isinstance(args.val, str | Path) else "separate validation data"
    own = data_paths(args)[1] if isinstance(args.data, str | Path) else None
    if isinstance(own, Path):
        return f"its own split {own.name}"
    return f"{VAL_FRACTION:.0%} of the data, which were left out of training (seed {args.seed})"


def split_notes(args: TrainArgs) -> tuple[str, ...]:
    """Return why an existing split of the data is not used for validation, if there is such a split."""
    if args.val is not None or not isinstance(args.data, str | Path):
        return ()
    whole = opened(args.data, "")
    if not isinstance(whole, Path) or not whole.is_dir() or (first := find_split(whole, "train")) is None:
        return ()
    why = _unlabelled(first, find_split(whole, "validation") or find_split(whole, "test"))
    return (f"{why}: {VAL_FRACTION:.0%} of the training data are used for validation",) if why else ()


def _unlabelled(first: Source, other: Source | None) -> str:
    """Return how a validation or test split lacks the labels of the training split, as on Kaggle; "" if it has them."""
    if not isinstance(first, Path) or not isinstance(other, Path):
        return ""
    if first.is_file() and other.is_dir():
        return f"{other.name}/ is not a table like {first.name}"
    if first.is_dir() and other.is_dir() and any(map(Path.is_dir, first.iterdir())):
        return "" if any(map(Path.is_dir, other.iterdir())) else f"{other.name}/ has no folders like {first.name}/"
    if first.suffix.lower() not in DELIMITED or first.suffix != other.suffix:
        return ""
    expected, found = (open_table(path, tuple(NAMES)).names for path in (first, other))
    missing = [name for name in expected if name not in found]
    return f"{other.name} lacks the column {', '.join(missing)}" if missing else ""


def opened(data: Any, option: str) -> Source:
    """Resolve a source of data: the folder of a named dataset or archive, a path, or the rows of a Python object."""
    if not isinstance(data, str | Path):
        return reader_of(data)
    if str(data) in DATASETS:
        return open_data(str(data))
    if is_stream(data):  # streamed training data is read in windows by `build`
        raise InputError(f"{option} {data} is a stream".strip(), "give files, which can be read more than once")
    path = Path(data)
    if path.exists():
        return unpacked(path) if is_archive(path) and not is_shard(path) else path
    if remote := re.match(r"(pipe:|[a-z][a-z0-9+.-]*://)", str(data)):
        what, command = ("a pipe", str(data)[5:]) if remote[1] == "pipe:" else ("a URL", "…")
        command = f"curl -L {data}" if remote[1].startswith("http") else command
        fact = f"{option} {data} is {what}, and training fetches nothing itself".strip()
        raise InputError(fact, f"download it first, or stream it: {command} | glassformer train … - --val … --steps …")
    if shards := matching(str(data)):
        return shards
    if all(Path(part).is_file() for part in str(data).split(",")):
        return [Path(part) for part in str(data).split(",")]
    fact = f"{option} {data} does not exist".strip()
    if close := _similar(str(data)):
        raise InputError(fact, f"did you mean {close}?")
    names = ", ".join(DATASETS)
    raise InputError(fact, f"give a folder, a file, or the name of a dataset ({names})")


def _similar(data: str) -> str:
    """Return a dataset, file or pair of line-aligned files with a similar name, or ""."""
    path = Path(data)
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    both = [name for name in sorted(beside) if name.rpartition(".")[0] == path.name]
    if len(both) == 2 and not any(Path(name).suffix.lower() in SUFFIXES for name in both):
        return ",".join(str(path.parent / name) for name in both)
    if close := get_close_matches(path.name, beside, 1, cutoff=0.7):
        return str(path.parent / close[0])
    return next(iter(get_close_matches(data, DATASETS, 1, cutoff=0.7)), "")


def split(whole: D, val: D | None, seed: int, classes: Sequence[Sequence[int]] | None = None) -> tuple[D, D, Faults]:
    """Return training data, validation data (10 % of the former if there is none), and the rows skipped on opening.

    If `classes` of every row are given, the 10 % are stratified.
    """
    faults = Faults()
    for opened in (whole,) if val is None else (whole, val):
        faults.remember(opened.faults)
    if val is not None:
        return whole, val, faults
    if classes is None:
        rows, rest = held_out(len(whole), VAL_FRACTION, seed)
    else:
        rows, rest = stratified(classes, VAL_FRACTION, seed)
    return whole.part(rows), whole.part(rest), faults


def base_model(args: TrainArgs, what: str, suits: Callable[[nn.Module], bool]) -> nn.Module | None:
    """Return the model to fine-tune, or None to train from scratch. `what` describes the models that suit the task."""
    if args.from_ is None:
        return None
    model = load_folder(find_model(args.from_), dtype=torch.float32)
    if not suits(model):
        raise InputError(f"--from {args.from_} is a {type(model).__name__}", f"fine-tune {what}")
    model.requires_grad_(True)
    return model
