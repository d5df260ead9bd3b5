"""Packed arrays of strings and of line positions, which worker processes share without copying memory pages.

With a Python list of a million paths, a worker gets its own copy of every page it reads, since each access changes a
reference count stored beside the string.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.faults import Fault
from glassformer.errors import InputError

PART = 1 << 20  # bytes read at once


class Strings:
    """s[i] = text[ends[i−1] : ends[i]]: a sequence of strings in one buffer."""

    def __init__(self, strings: Iterable[str]) -> None:
        text, ends = bytearray(), [0]
        for string in strings:
            text += string.encode("utf-8", "surrogateescape")  # file names may be arbitrary bytes
            ends.append(len(text))
        self.text, self.ends = bytes(text), np.array(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, i: int) -> str:
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} is out of range: there are {len(self)}")
        return self.text[self.ends[i] : self.ends[i + 1]].decode("utf-8", "surrogateescape")


def raw_lines(path: Path, longest: int = PART) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, offset, bytes without the line ending) of every line; LF or CRLF, without a leading BOM.

    A line longer than `longest` is truncated, so a file with one endless line does not exhaust memory.
    """
    try:
        with path.open("rb") as file:
            mark = file.read(len(codecs.BOM_UTF8))
            if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise InputError(f"{path} is UTF-16", "save it as UTF-8")
            offset = len(codecs.BOM_UTF8) if mark == codecs.BOM_UTF8 else 0
            file.seek(offset)
            number = 0
            while line := file.readline(longest + 2):
                number, start = number + 1, offset
                offset += len(line)
                last = line
                while not last.endswith(b"\n") and (last := file.readline(PART)):
                    offset += len(last)
                yield number, start, line.removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"there is no {path}", "give a file that exists")
    return InputError(f"{path} cannot be read ({error.strerror})", "give a file that can be read")


class LineIndex:
    """Offset and length of each usable row of a file; the text stays on disk."""

    def __init__(self, path: Path, places: Iterable[tuple[int, int, int]]) -> None:
        """`places` are tuples of (line number, offset, length in bytes)."""
        self.path = path
        table = np.fromiter((part for place in places for part in place), dtype=np.int64).reshape(-1, 3)
        self.numbers: NDArray[np.int64] = table[:, 0].copy()
        self.offsets: NDArray[np.int64] = table[:, 1].copy()
        self.lengths: NDArray[np.int32] = table[:, 2].astype(np.int32)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, i: int) -> str:
        """Read row i. The file is opened for each row, so processes have no handle to share, inherit or close."""
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} is out of range: there are {len(self)}")
        try:
            with self.path.open("rb") as file:
                file.seek(int(self.offsets[i]))
                line = file.read(int(self.lengths[i]))
            return line.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            raise Fault("line that changed since the file was opened", self.place(i)) from None

    def place(self, i: int) -> str:
        return f"{self.path.name} line {self.numbers[i]}"

    def part(self, rows: NDArray[np.int64]) -> LineIndex:
        """Return the subset of these rows, in this order."""
        found = LineIndex(self.path, ())
        found.numbers, found.offsets, found.lengths = self.numbers[rows], self.offsets[rows], self.lengths[rows]
        return found
