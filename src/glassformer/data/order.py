"""Order of rows and batches as a function of seed and epoch alone, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError

POOL = 100  # batches per pool sorted by length: enough for little padding, few enough to stay random


def random_of(seed: int, epoch: int, stream: int = 0) -> np.random.Generator:
    """Return a random generator that is independent for each seed and epoch."""
    if seed < 0 or epoch < 0:
        raise InputError(f"seed is {seed} and epoch is {epoch}", "give whole numbers from 0")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, epoch, stream))))


def shuffled(n: int, seed: int, epoch: int) -> list[int]:
    """Return a random permutation of 0 … n−1."""
    return [int(i) for i in random_of(seed, epoch).permutation(n)]


class Batches(Sequence[list[int]]):
    """A sequence of batches: batch i is rows[cuts[i] : cuts[i+1]]. Slices share the rows of the whole."""

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
    """Shuffle rows into batches of `size`; the last batch may be smaller, and is dropped if `whole` is set."""
    if size < 1:
        raise InputError(f"batch size must be at least 1, got {size}", "choose at least 1")
    rows = random_of(seed, epoch).permutation(n).astype(np.int64)
    starts = np.arange(0, n - size + 1 if whole else n, size, dtype=np.int64)
    return Batches(rows, starts, np.minimum(starts + size, n))


def bucketed(
    lengths: Sequence[int] | NDArray[np.integer], tokens_per_batch: int, seed: int, epoch: int, *, most: int = 4096
) -> Batches:
    """Batch rows of similar length: rows · longest ≤ tokens_per_batch, with at most `most` rows per batch.

    Rows are shuffled, then sorted by length within pools of about a hundred batches; then the batches are shuffled. A
    row that exceeds the budget alone forms its own batch.
    """
    if tokens_per_batch < 1 or most < 1:
        raise InputError(f"batches have at most {tokens_per_batch} tokens and {most} rows", "choose at least 1 of each")
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
    """Return where batches begin. Lengths are ascending, so the last row is the longest of its batch."""
    starts, first = [], 0
    for i, size in enumerate(sizes.tolist()):
        if i == 0 or (i - first + 1) * size > budget or i - first >= most:
            first = i
            starts.append(offset + i)
    return starts


def seeds(n: int, seed: int, epoch: int) -> list[int]:
    """Return one augmentation seed for each of n batches."""
    return [int(one) for one in random_of(seed, epoch, 2).integers(0, 2**62, n)]


def spread(n: int, most: int | None) -> list[int]:
    """Return `most` evenly spaced indices of 0 … n−1 (files are often sorted), or all of them if None."""
    count = n if most is None else min(n, most)
    return [i * n // count for i in range(count)]


def held_out(n: int, share: float, seed: int, *, most: int = 2000) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows into training and validation rows, both sorted; validation gets a fraction `share`, 1 … most rows."""
    if n < 2:
        raise InputError(f"{n} row cannot be split into training and validation data", "give at least 2")
    count = min(most, max(1, round(share * n)), n - 1)
    mixed = random_of(seed, 0, 4).permutation(n).astype(np.int64)
    return np.sort(mixed[count:]), np.sort(mixed[:count])


def stratified(
    classes: Sequence[Sequence[int]], share: float, seed: int, *, most: int = 2000
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows as `held_out` does, with about the same share of every class in both parts.

    `classes[i]` are the classes of row i: one, several, or none. Classes are distributed from the rarest to the most
    frequent (Sechidis et al. 2011, for rows of several classes). The last row of a class is for training. A class of
    two rows or more gets a validation row if its rows have no other class, unless there are more such classes than
    validation rows.
    """
    n = len(classes)
    plain = held_out(n, share, seed, most=most)
    count, mixed = len(plain[1]), random_of(seed, 0, 4).permutation(n).tolist()
    members: dict[int, list[int]] = {}
    for row in mixed:
        for k in dict.fromkeys(classes[row]):
            members.setdefault(k, []).append(row)
    least = int(sum(len(rows) > 1 for rows in members.values()) <= count)
    unused = {k: len(rows) for k, rows in members.items()}  # rows that are not for validation
    training, validation = set[int](), set[int]()
    for rows in sorted(members.values(), key=len):
        left = [row for row in rows if row not in training and row not in validation]
        decided = len(training) + len(validation) + len(left)
        wanted = round(count * decided / n) - len(validation)
        wanted = max(wanted, 0 if any(row in validation for row in rows) else least)
        for row in left:
            if wanted > 0 and all(unused[k] > 1 for k in classes[row]):
                validation.add(row)
                wanted -= 1
                for k in {*classes[row]}:
                    unused[k] -= 1
            else:
                training.add(row)
    unlabelled = [row for row in mixed if row not in training and row not in validation]
    validation.update(unlabelled[: max(0, count - len(validation))])
    if not validation:
        return plain
    chosen = np.array(sorted(validation), dtype=np.int64)
    return np.setdiff1d(np.arange(n), chosen), chosen
