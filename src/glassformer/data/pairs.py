"""Sentence pairs: a table with a column for each side, or two files whose lines correspond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from glassformer.data.rows import Row, RowDataset, Rows, Source, name_of, open_rows

LONGEST = 4000  # maximum length of a sentence, in bytes


class Pairs(RowDataset):
    """Sentence pairs with `source(i)`, `target(i)` and `length(i)`, the bytes of the longer one, for row i.

    `faults` are the rows skipped when the data was opened.
    """

    def __init__(self, rows: Rows, sizes: NDArray[np.int32]) -> None:
        self.rows, self.sizes = rows, sizes

    @classmethod
    def open(cls, path: Source, columns: Mapping[str, str] | None = None, *, longest: int = LONGEST) -> Pairs:
        """Open a table or two line-aligned files. `columns` may name the columns of `source` and `target`."""
        sizes: list[int] = []

        def check(row: Row) -> str:
            sides = [row["source"], row["target"]]
            if not all(isinstance(side, str) and side.strip() for side in sides):
                return "empty sentence"
            size = max(len(side.strip().encode()) for side in sides)
            if size > longest:
                return f"sentence of more than {longest:,} bytes"
            sizes.append(size)
            return ""

        rows = open_rows(path, ("source", "target"), given=columns, check=check)
        rows.require_some(f"{name_of(path)} has no sentence pairs", "give lines of source TAB target")
        return cls(rows, np.array(sizes, dtype=np.int32))

    def source(self, i: int) -> str:
        return self.pair(i)[0]

    def target(self, i: int) -> str:
        return self.pair(i)[1]

    def pair(self, i: int) -> tuple[str, str]:
        """Return source and target of row i with a single read."""
        row = self.rows[i]
        return str(row["source"]).strip(), str(row["target"]).strip()

    def length(self, i: int) -> int:
        return int(self.sizes[i])

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The `length` of every row, for `order.bucketed`."""
        return self.sizes

    def part(self, rows: NDArray[np.int64]) -> Pairs:
        return Pairs(self.rows.part(rows), self.sizes[rows])

    def like(self, source: Source) -> Pairs:
        return Pairs.open(source, self.rows.given)
