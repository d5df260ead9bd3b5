"""Batches prefetched in order by n worker processes; they are the same for every n."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from glassformer.data.faults import Faults
from glassformer.errors import ConfigError, GlassError, InputError
from glassformer.runtime.measure import one_thread

Batch = Mapping[str, Tensor]
Stream = Generator[Batch | None, None, None]
AHEAD = 2  # batches that each worker prefetches


class BatchReader(Protocol):
    """The part of an objective that runs in workers. Faults from workers are merged into its `faults`, if any."""

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None: ...


def prefetch(
    objective: BatchReader,
    batches: Sequence[Sequence[int]],
    seeds: Sequence[int],
    workers: int = 0,
    *,
    require_some: bool = True,
) -> Stream:
    """Iterate over batches: batch i is made from batches[i] and seeds[i], or None if all of its rows are faulty.

    With 0 workers, this process reads the data. Otherwise workers are forked where the system supports it, so that
    they share what is already in memory. They stop when the iterator is closed or exhausted, or on an error; they
    ignore Ctrl-C, which this process handles. With `require_some`, it is an error if no batch has a usable row.
    """
    if len(batches) != len(seeds):
        raise ConfigError(f"there are {len(batches)} batches but {len(seeds)} seeds", "give a seed for each batch")
    if workers < 0:
        raise ConfigError(f"num_workers must be at least 0, got {workers}", "choose 0 (load in this process) or more")
    return _checked(objective, batches, seeds, workers, require_some)


def _checked(
    objective: BatchReader, batches: Sequence[Sequence[int]], seeds: Sequence[int], workers: int, require_some: bool
) -> Stream:
    made = _here(objective, batches, seeds) if workers == 0 else _there(objective, batches, seeds, workers)
    tally, some = _tally(objective), False
    try:
        for batch in made:
            if tally is not None:
                tally.check()
            some = some or batch is not None
            yield batch
    finally:
        made.close()
    if require_some and len(batches) and not some:
        if tally is not None:
            tally.check(1)
        raise InputError(f"none of {len(batches):,} batches has a row that can be used", "check the data")


def _tally(objective: BatchReader) -> Faults | None:
    found = getattr(objective, "faults", None)
    return found if isinstance(found, Faults) else None


# ---- in this process -------------------------------------------------------------------------------------------------


def _here(objective: BatchReader, batches: Sequence[Sequence[int]], seeds: Sequence[int]) -> Stream:
    for rows, seed in zip(batches, seeds, strict=True):
        with one_thread():
            batch = objective.batch(rows, seed)
        yield batch


# ---- in others -------------------------------------------------------------------------------------------------------


class Flat(NamedTuple):
    """A tensor serialised as bytes and sent through a pipe. Torch's shared memory is faster for large tensors, but
    needs space in /dev/shm (containers have 64 MB) and threads that write to the terminal when Ctrl-C stops them."""

    bytes: NDArray[np.uint8]
    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor) -> Flat:
        return cls(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy(), x.dtype, tuple(x.shape))

    def tensor(self) -> Tensor:
        return torch.from_numpy(self.bytes).view(self.dtype).reshape(self.shape)


class WorkerResult(NamedTuple):
    """The result of a worker. A user error is returned as a value: if raised there, its type would be lost here."""

    batch: dict[str, Flat] | None
    faults: Faults | None
    error: GlassError | None


class Jobs(Dataset[WorkerResult]):
    """A dataset whose item i is the whole batch i."""

    def __init__(self, objective: BatchReader, batches: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        self.objective, self.batches, self.seeds = objective, batches, seeds

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> WorkerResult:
        tally = _tally(self.objective)
        try:
            batch, error = self.objective.batch(self.batches[i], self.seeds[i]), None
        except GlassError as mistake:
            batch, error = None, mistake
        flat = None if batch is None else {name: Flat.of(x) for name, x in batch.items()}
        return WorkerResult(flat, tally.take() if tally is not None else None, error)


def _start(_: int) -> None:
    """Initialise a worker: reset its faults, leave signals to its parent, and start no threads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers signal all processes; the parent still needs batches
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    info = get_worker_info()
    if info is not None and isinstance(info.dataset, Jobs) and (tally := _tally(info.dataset.objective)) is not None:
        tally.take()


def _same(made: Any) -> Any:
    return made


def _there(objective: BatchReader, batches: Sequence[Sequence[int]], seeds: Sequence[int], workers: int) -> Stream:
    if not len(batches):
        return
    loader = DataLoader(
        Jobs(objective, batches, seeds),
        batch_size=None,
        sampler=range(len(batches)),
        num_workers=min(workers, len(batches)),
        prefetch_factor=AHEAD,
        collate_fn=_same,
        worker_init_fn=_start,
        generator=torch.Generator(),  # otherwise it draws from torch's global generator
        multiprocessing_context="fork" if sys.platform == "linux" else None,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # from 3.12: forking a process with threads
        warnings.filterwarnings("ignore", ".*worker processes in total", UserWarning)  # more workers than cores
        arriving = iter(loader)
    tally = _tally(objective)
    try:
        for made in arriving:
            if tally is not None and made.faults is not None:
                tally.merge(made.faults)
            if made.error is not None:
                raise made.error
            yield None if made.batch is None else {name: flat.tensor() for name, flat in made.batch.items()}
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker (pid"):
            raise
        fact = f"a data-loading worker ended unexpectedly ({str(error).splitlines()[0][:80]})"
        raise InputError(fact, "use fewer workers or smaller batches, which need less memory") from None
    finally:
        if isinstance(arriving, _MultiProcessingDataLoaderIter):
            arriving._shutdown_workers()
