"""What every task does with a wish: split its data, load the model to go on from, hand over a model with its lesson."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.checkpoints import load
from glassformer.errors import InputError
from glassformer.tasks.data.faults import Faults
from glassformer.tasks.data.order import held_out
from glassformer.tasks.learn.tune import tuned
from glassformer.tasks.learn.wish import SHARE, Start, Wish
from glassformer.tasks.training import Lesson

NEW = 1e-3  # the rate of a model that begins at random
M = TypeVar("M", bound=nn.Module)


class Tells(Lesson, Protocol):
    """A lesson that tells what it could not use."""

    faults: Faults


class Opened(Protocol):
    """Rows of any kind, and what opening them left out."""

    faults: Faults

    def __len__(self) -> int: ...

    def part(self, rows: NDArray[np.int64]) -> Self: ...


D = TypeVar("D", bound=Opened)


def halved(whole: D, held: D | None, seed: int) -> tuple[D, D, Faults]:
    """What to learn from, what to hold out (a part of the whole if nothing is given), and what opening left out."""
    faults = Faults()
    for opened in (whole,) if held is None else (whole, held):
        faults.remember(opened.faults)
    if held is not None:
        return whole, held, faults
    rows, rest = held_out(len(whole), SHARE, seed)
    return whole.part(rows), whole.part(rest), faults


def going_on(wish: Wish, kinds: tuple[type[M], ...], what: str) -> M | None:
    """The model to go on from, one of these kinds; None if the wish is for a new one."""
    if wish.base is None:
        return None
    model = load(wish.folder, dtype=torch.float32)
    if not isinstance(model, kinds):
        raise InputError(f"{wish.base} holds a {type(model).__name__}", f"go on from {what}")
    return model


def begun(
    wish: Wish,
    model: nn.Module,
    lesson: Tells,
    save: Callable[[nn.Module, Path], Path],
    what: str,
    *,
    faults: Faults | None = None,
    gentle: float = 2e-4,
) -> Start:
    """Changed by a low rank if wished for; `gentle` is the rate of a model that goes on. Faults are told at the end."""
    if faults is not None:
        lesson.faults.remember(faults)
    save = tuned(wish.rank, wish.seed, model, save)
    return Start(model, lesson, save, NEW if wish.base is None else gentle, what)
