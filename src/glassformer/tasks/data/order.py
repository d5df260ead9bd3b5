"""π = permutation(n; seed, epoch): the order of rows is a function of its arguments alone, so a run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError

POOL = 100  # batches whose rows are sorted by length together: enough for little padding, few enough to stay random


def random_of(seed: int, epoch: int, stream: int = 0) -> np.random.Generator:
    """Independent streams of numbers for each seed and epoch."""
    if seed < 0 or epoch < 0:
        raise InputError(f"seed {seed}, epoch {epoch}", "give whole numbers from 0")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, epoch, stream))))


def shuffled(n: int, seed: int, epoch: int) -> list[int]:
    """0 … n−1, each once."""
    return [int(i) for i in random_of(seed, epoch).permutation(n)]


class Batches(Sequence[list[int]]):
    """Batch i is rows[cuts[i] : cuts[i+1]]; a part of the batches shares the rows of the whole."""

    def __init__(self, rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.rows, self.starts, self.ends = rows, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, i: int) -> list[int]: ...

    @overload
    def __getitem__(self, i: slice) -> Batches: ...

    def __getitem__(self, i: int | slice) -> list[int] | Batches:
        if isinstance(i, slice):
            return Batches(self.rows, self.starts[i], self.ends[i])
        return [int(row) for row in self.rows[self.starts[i] : self.ends[i]]]


def batches(n: int, size: int, seed: int, epoch: int, *, whole: bool = False) -> Batches:
    """Shuffled rows, `size` at a time; the last batch may be smaller, unless only `whole` ones are wanted."""
    if size < 1:
        raise InputError(f"batches of {size} rows", "take at least 1")
    rows = random_of(seed, epoch).permutation(n).astype(np.int64)
    starts = np.arange(0, n - size + 1 if whole else n, size, dtype=np.int64)
    return Batches(rows, starts, np.minimum(starts + size, n))


def bucketed(
    lengths: Sequence[int] | NDArray[np.integer], tokens_per_batch: int, seed: int, epoch: int, *, most: int = 4096
) -> Batches:
    """Rows of like length together: rows · longest ≤ tokens_per_batch, and no more than `most` rows.

    Shuffled first, then sorted by length within pools of about a hundred batches, then the batches are shuffled. A row
    that alone passes the budget is a batch of its own.
    """
    if tokens_per_batch < 1 or most < 1:
        raise InputError(f"batches of {tokens_per_batch} tokens, {most} rows", "take at least 1")
    sizes = np.maximum(np.asarray(lengths, dtype=np.int64), 1)
    random = random_of(seed, epoch, 1)
    rows = random.permutation(len(sizes)).astype(np.int64)
    pool = max(1, int(POOL * min(most, tokens_per_batch / max(1.0, float(sizes.mean()) if len(sizes) else 1.0))))
    cuts: list[int] = []
    for start in range(0, len(rows), pool):
        part = rows[start : start + pool]
        part[:] = part[np.argsort(sizes[part], kind="stable")]
        cuts += _cut(sizes[part], tokens_per_batch, most, start)
    starts = np.array(cuts, dtype=np.int64)
    ends = np.append(starts[1:], len(rows)).astype(np.int64)
    mixed = random.permutation(len(starts))
    return Batches(rows, starts[mixed], ends[: len(starts)][mixed])


def _cut(sizes: NDArray[np.int64], budget: int, most: int, offset: int) -> list[int]:
    """Where batches begin: sizes rise, so the newest row is the longest of its batch."""
    starts, first = [], 0
    for i, size in enumerate(sizes.tolist()):
        if i == 0 or (i - first + 1) * size > budget or i - first >= most:
            first = i
            starts.append(offset + i)
    return starts


def seeds(n: int, seed: int, epoch: int) -> list[int]:
    """A seed for each of n batches: what `Lesson.batch` draws its augmentation from."""
    return [int(one) for one in random_of(seed, epoch, 2).integers(0, 2**62, n)]


def spread(n: int, most: int | None) -> list[int]:
    """`most` of 0 … n−1, evenly, for files are often sorted by length or class; None: all of them."""
    count = n if most is None else min(n, most)
    return [i * n // count for i in range(count)]


def held_out(n: int, share: float, seed: int, *, most: int = 2000) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from and rows to hold out: a `share` of them, at least one and at most `most`, each in order."""
    if n < 2:
        raise InputError(f"{n} row to learn from and to hold out", "give at least 2")
    count = min(most, max(1, round(share * n)), n - 1)
    mixed = random_of(seed, 0, 4).permutation(n).astype(np.int64)
    return np.sort(mixed[count:]), np.sort(mixed[:count])
