"""The order in which a lesson's batches come, from any place on: a function of seed, epoch and number alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np
import torch

from glassformer.errors import InputError
from glassformer.tasks.data.workers import prefetch
from glassformer.tasks.training.lesson import Batch, Lesson

AT_ONCE = 512  # batches that one set of workers makes at least, so that short epochs do not start them all the time


class Job(NamedTuple):
    """One batch to be made: the rows that are this process's, and the seed of their augmentation."""

    epoch: int
    number: int
    rows: Sequence[int]
    seed: int
    batches: int  # in its epoch

    @property
    def next(self) -> tuple[int, int]:
        """Epoch and number of the one after it."""
        return (self.epoch, self.number + 1) if self.number + 1 < self.batches else (self.epoch + 1, 0)


def jobs(lesson: Lesson, seed: int, epoch: int, number: int, rank: int = 0, world: int = 1) -> Iterator[Job]:
    """Without end: epoch after epoch, from batch `number` of `epoch` on; every `world`-th row from `rank` on."""
    while True:
        batches = lesson.epoch(epoch)
        if not len(batches):
            raise InputError(f"epoch {epoch} has no batches", "train on data that has rows")
        for i in range(number, len(batches)):
            rows = batches[i][rank::world] if world > 1 else batches[i]
            yield Job(epoch, i, rows, mixed(seed, epoch, i, rank), len(batches))
        epoch, number = epoch + 1, 0


def made(lesson: Lesson, stream: Iterator[Job], workers: int) -> Generator[tuple[Job, Batch | None], None, None]:
    """Each job with its batch, made here or ahead of time by workers; close it to end them."""
    for epochs in _pieces(stream):
        full = [job for job in epochs if len(job.rows)]  # with few rows and many processes some get none
        batches = prefetch(lesson, [job.rows for job in full], [job.seed for job in full], workers)
        with closing(batches):
            for job in epochs:
                yield job, next(batches) if len(job.rows) else None
            next(batches, None)  # its end, which is where it says that no batch had anything in it


def _pieces(stream: Iterator[Job]) -> Iterator[list[Job]]:
    """Whole epochs (the first from where it starts), enough of them for AT_ONCE batches."""
    piece: list[Job] = []
    for job in stream:
        piece.append(job)
        if job.number + 1 == job.batches and len(piece) >= AT_ONCE:
            yield piece
            piece = []


def mixed(*numbers: int) -> int:
    """One seed of 63 bits from several numbers, unlike that of their neighbours."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def seed_all(seed: int) -> None:
    """Every global random state from one seed, so that a step draws the same whatever came before it."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # the same, but for a note of the whole call stack for devices that are not there: a millisecond a step
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Whoever calls finds the global random states as they were."""
    python, numeric = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numeric)
