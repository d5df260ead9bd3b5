"""The batch sequence of a run. It depends only on seed, epoch and batch number, so a run can resume at any batch."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np
import torch

from glassformer.data.stream import Stream
from glassformer.data.workers import prefetch
from glassformer.errors import InputError
from glassformer.train.objective import Batch, Objective

MIN_BATCHES = 512  # per set of workers, so that they are not restarted for every short epoch


class BatchJob(NamedTuple):
    """One batch to load: the rows assigned to this process and their augmentation seed."""

    epoch: int
    number: int
    rows: Sequence[int]
    seed: int
    batches: int  # in its epoch

    @property
    def next(self) -> tuple[int, int]:
        """Return the epoch and batch number of the next job."""
        return (self.epoch, self.number + 1) if self.number + 1 < self.batches else (self.epoch + 1, 0)


def jobs(
    objective: Objective,
    seed: int,
    epoch: int,
    number: int,
    rank: int = 0,
    world: int = 1,
    stream: Stream | None = None,
) -> Iterator[BatchJob]:
    """Yield jobs, starting at batch `number` of `epoch`: endlessly, or until streamed data ends.

    Process `rank` gets every `world`-th row.
    """
    while True:
        if stream is not None:
            window = stream.window(epoch)
            if window is None:
                return
            objective.refill(window)  # type: ignore[attr-defined]  # objectives with a stream have it
        batches = objective.epoch(epoch)
        if not len(batches) and stream is None:
            raise InputError(f"epoch {epoch} has no batches", "give training data that is not empty")
        for i in range(number, len(batches)):
            rows = batches[i][rank::world] if world > 1 else batches[i]
            yield BatchJob(epoch, i, rows, mix_seeds(seed, epoch, i, rank), len(batches))
        epoch, number = epoch + 1, 0


def load_batches(
    objective: Objective, stream: Iterator[BatchJob], workers: int
) -> Generator[tuple[BatchJob, Batch | None], None, None]:
    """Yield each job with its batch, loaded in this process or by workers; close the generator to stop the workers."""
    in_windows = stream_of(objective) is not None  # each replaces the one before it, and may be unusable
    for epochs in _pieces(stream, 1 if in_windows else MIN_BATCHES):
        full = [job for job in epochs if len(job.rows)]  # some processes get no rows of a small batch
        rows, seeds = [job.rows for job in full], [job.seed for job in full]
        batches = prefetch(objective, rows, seeds, workers, require_some=not in_windows)
        with closing(batches):
            for job in epochs:
                yield job, next(batches) if len(job.rows) else None
            next(batches, None)  # reports at the end if no batch was usable


def stream_of(objective: Objective) -> Stream | None:
    found = getattr(objective, "stream", None)
    return found if isinstance(found, Stream) else None


def _pieces(stream: Iterator[BatchJob], least: int) -> Iterator[list[BatchJob]]:
    """Group whole epochs (the first from its starting point) into groups of at least `least` batches."""
    piece: list[BatchJob] = []
    for job in stream:
        piece.append(job)
        if job.number + 1 == job.batches and len(piece) >= least:
            yield piece
            piece = []


def mix_seeds(*numbers: int) -> int:
    """Hash several numbers into a 63-bit seed."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def seed_all(seed: int) -> None:
    """Seed torch, NumPy and Python, so that the random numbers of a step do not depend on earlier steps."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # `torch.manual_seed` also visits absent devices, which takes a millisecond
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


@contextmanager
def preserve_rng() -> Iterator[None]:
    """Context manager that restores the global random states on exit."""
    python, numeric = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numeric)
