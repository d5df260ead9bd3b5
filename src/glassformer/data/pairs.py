"""Sentence pairs in TSV files. Only the positions of the lines are held in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.faults import Fault, Faults
from glassformer.data.packed import LineIndex, raw_lines
from glassformer.errors import InputError

LONGEST = 4000  # maximum length of a sentence, in bytes


class Pairs:
    """Sentence pairs with `source(i)`, `target(i)` and `length(i)`, the bytes of the longer one, for row i.

    `faults` are the rows skipped when the file was opened.
    """

    def __init__(self, rows: LineIndex, sizes: NDArray[np.int32], columns: tuple[int, int], faults: Faults) -> None:
        self.rows, self.sizes, self.columns, self.faults = rows, sizes, columns, faults

    @classmethod
    def open(
        cls, path: str | Path, columns: tuple[int, int] | tuple[str, str] = (0, 1), *, longest: int = LONGEST
    ) -> Pairs:
        """Open a TSV file. Source and target are the first two columns, or those of these indices or header names."""
        path, faults, sizes = Path(path), Faults(), []
        width, at, header = _layout(path, columns)

        def places() -> Iterator[tuple[int, int, int]]:
            for number, offset, line in islice(raw_lines(path), header, None):
                try:
                    size = _checked(line, f"{path.name} line {number}", width, at, longest)
                except Fault as fault:
                    faults.count(fault)
                    continue
                faults.good()
                sizes.append(size)
                yield number, offset, len(line)

        rows = LineIndex(path, places())
        faults.check(1)
        if not len(rows):
            raise InputError(f"{path} has no sentence pairs", "give lines of source TAB target")
        return cls(rows, np.array(sizes, dtype=np.int32), at, faults)

    def __len__(self) -> int:
        return len(self.rows)

    def source(self, i: int) -> str:
        return self._part(i, self.columns[0])

    def target(self, i: int) -> str:
        return self._part(i, self.columns[1])

    def pair(self, i: int) -> tuple[str, str]:
        """Return source and target of row i with a single read."""
        parts = self.rows[i].split("\t")
        try:
            return parts[self.columns[0]].strip(), parts[self.columns[1]].strip()
        except IndexError:
            raise Fault("line that changed since the file was opened", self.rows.place(i)) from None

    def length(self, i: int) -> int:
        return int(self.sizes[i])

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The `length` of every row, for `order.bucketed`."""
        return self.sizes

    def part(self, rows: NDArray[np.int64]) -> Pairs:
        return Pairs(self.rows.part(rows), self.sizes[rows], self.columns, Faults())

    def _part(self, i: int, column: int) -> str:
        return self.pair(i)[0 if column == self.columns[0] else 1]


def _layout(path: Path, columns: tuple[int, int] | tuple[str, str]) -> tuple[int, tuple[int, int], int]:
    """Return the number of columns (most common in the first 1000 lines), the two selected, and the header lines."""
    first = [line.split(b"\t") for _, _, line in islice(raw_lines(path), 1000) if line.strip()]
    if not first:
        raise InputError(f"{path} is empty", "give lines of source TAB target")
    width = Counter(map(len, first)).most_common(1)[0][0]
    a, b = columns
    if isinstance(a, str) or isinstance(b, str):
        names = [name.decode("utf-8", "replace").strip() for name in first[0]]
        missing = [name for name in (a, b) if name not in names]
        if missing:
            fact = f"{path} has no column {missing[0]}, but {', '.join(names)[:80]}"
            raise InputError(fact, "name two that it has in its first line")
        return len(names), (names.index(str(a)), names.index(str(b))), 1
    if not 0 <= min(a, b) < max(a, b) < width:
        fact = f"columns {a} and {b} of {path}, which has {width}"
        raise InputError(fact, "separate source and target by a TAB, or choose two columns from 0")
    return width, (a, b), 0


def _checked(line: bytes, place: str, width: int, at: tuple[int, int], longest: int) -> int:
    """Return the length in bytes of the longer sentence. Raises Fault if the line is not a valid pair."""
    if not line.strip():
        raise Fault("empty line", place)
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("not UTF-8", place) from None
    parts = line.split(b"\t")
    if len(parts) != width:
        raise Fault(f"wrong number of columns (not {width})", place)
    sizes = [len(parts[i].strip()) for i in at]
    if not min(sizes):
        raise Fault("empty sentence", place)
    if max(sizes) > longest:
        raise Fault(f"sentence of more than {longest:,} bytes", place)
    return max(sizes)
