"""Many strings, or the places of many lines, in two arrays: workers share them and no page of them is ever copied.

A Python list of a million paths costs a worker its own copy of every page that it looks at, for each look changes a
reference count that lies beside the string.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError
from glassformer.tasks.data.faults import Fault

PART = 1 << 20  # bytes read at once


class Strings:
    """s[i] = text[ends[i−1] : ends[i]]."""

    def __init__(self, strings: Iterable[str]) -> None:
        text, ends = bytearray(), [0]
        for string in strings:
            text += string.encode("utf-8", "surrogateescape")  # names of files may be any bytes
            ends.append(len(text))
        self.text, self.ends = bytes(text), np.array(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, i: int) -> str:
        if not 0 <= i < len(self):
            raise IndexError(f"{i} of {len(self)}")
        return self.text[self.ends[i] : self.ends[i + 1]].decode("utf-8", "surrogateescape")


def raw_lines(path: Path, longest: int = PART) -> Iterator[tuple[int, int, bytes]]:
    """(number from 1, offset, bytes without the line's end) of every line; LF or CRLF, a BOM in front left out.

    Of a line longer than `longest` only the beginning is given, so a file of one endless line needs no memory.
    """
    try:
        with path.open("rb") as file:
            offset = len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
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


class Rows:
    """Where the rows of a file lie that can be used: an offset and a length each, the text stays on disk."""

    def __init__(self, path: Path, places: Iterable[tuple[int, int, int]]) -> None:
        """`places`: (number of the line, offset, length in bytes)."""
        self.path = path
        table = np.fromiter((part for place in places for part in place), dtype=np.int64).reshape(-1, 3)
        self.numbers: NDArray[np.int64] = table[:, 0].copy()
        self.offsets: NDArray[np.int64] = table[:, 1].copy()
        self.lengths: NDArray[np.int32] = table[:, 2].astype(np.int32)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, i: int) -> str:
        """Opened for each row: nothing to share, to inherit or to close between processes."""
        if not 0 <= i < len(self):
            raise IndexError(f"{i} of {len(self)}")
        try:
            with self.path.open("rb") as file:
                file.seek(int(self.offsets[i]))
                line = file.read(int(self.lengths[i]))
            return line.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            raise Fault("line that changed since the file was opened", self.place(i)) from None

    def place(self, i: int) -> str:
        return f"{self.path.name} line {self.numbers[i]}"

    def part(self, rows: NDArray[np.int64]) -> Rows:
        """Those rows, in that order."""
        found = Rows(self.path, ())
        found.numbers, found.offsets, found.lengths = self.numbers[rows], self.offsets[rows], self.lengths[rows]
        return found
