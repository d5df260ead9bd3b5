"""Data that arrives through a pipe: read once, in windows that fit in memory, so that it may be larger than the disk.

`curl … | glassformer train classify - --val held-out/ --steps 20000`: a WebDataset tar, or several one after the other,
or JSON Lines; either may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any

from glassformer.data.faults import Fault
from glassformer.data.python import values_of
from glassformer.data.tables import LONGEST, ListTable, Values, parse_object
from glassformer.data.webdataset import COLUMNS, FILES, LARGEST, split_name, values_of_text
from glassformer.errors import InputError

ROWS, BYTES = 4096, 1 << 28  # limits of a window; the one that is reached first applies
UNKNOWN_CLASS = "class that the validation data does not have"
STANDARD_INPUT = ("-", "/dev/stdin")
BLOCK = tarfile.BLOCKSIZE
Example = tuple[Values | Fault, str, int]  # with its place and its size in bytes


class Window(ListTable):
    """Consecutive examples of a stream, in memory: a table that is shuffled and trained on once.

    It has the columns of the windows before it, and its `number` in the stream.
    """

    def __init__(self, rows: Sequence[Values | Fault], places: Sequence[str], before: Window | None = None) -> None:
        super().__init__(rows, places)
        self.number: int = 0 if before is None else before.number + 1
        self.names = list(dict.fromkeys((*(() if before is None else before.names), *self.names)))


def is_later_window(data: Any) -> bool:
    """Return whether data is a later window of a stream; too many unusable rows are then judged over the whole run."""
    return isinstance(data, Window) and data.number > 0


class Stream:
    """Windows 0, 1, … of an iterable of examples, which are tuples or dictionaries. It is read forward only.

    `seen` is the number of examples read so far; `broken` says why the data broke off, if it did.
    """

    def __init__(self, examples: Iterable[Any], *, rows: int = ROWS, bytes: int = BYTES) -> None:
        read = ((values_of(example), f"example {i}") for i, example in enumerate(examples))
        self._begin(((row, place, _size(row)) for row, place in read), rows, bytes)

    @classmethod
    def open(cls, data: str | Path, *, rows: int = ROWS, bytes: int = BYTES) -> Stream:
        """Open standard input (`-`) or a named pipe."""
        if str(data) in STANDARD_INPUT and (sys.stdin is None or sys.stdin.isatty()):
            raise InputError("standard input is a terminal", "pipe a WebDataset tar or JSON Lines into the command")
        stream = cls.__new__(cls)
        stream._begin(_examples(str(data)), rows, bytes)
        return stream

    def _begin(self, examples: Iterator[Example], rows: int, bytes: int) -> None:
        self._examples, self._rows, self._bytes = examples, rows, bytes
        self._window: Window | None = None
        self.seen, self.broken = 0, ""

    def window(self, number: int) -> Window | None:
        """Return window `number`, skipping those before it; None if the stream ends first."""
        window = self._next() if self._window is None else self._window
        if number < window.number:
            raise InputError(f"window {number} of a stream has passed", "read a stream forward only")
        while window.number < number and len(window):
            window = self._next()
        return window if len(window) else None

    def _next(self) -> Window:
        rows: list[Values | Fault] = []
        places: list[str] = []
        size = 0
        while len(rows) < self._rows and size < self._bytes and not self.broken:
            try:
                row, place, more = next(self._examples)
            except StopIteration:
                break
            except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
                self.broken = " ".join(str(error).split())[:80] or type(error).__name__
                break
            rows.append(row)
            places.append(place)
            size += more
        self.seen += len(rows)
        self._window = Window(rows, places, self._window)
        return self._window


def is_stream(data: Any) -> bool:
    """Return whether data can be read only once: a `Stream`, standard input, or a pipe."""
    if isinstance(data, Stream):
        return True
    if not isinstance(data, str | Path):
        return False
    try:
        return str(data) in STANDARD_INPUT or Path(data).is_fifo()
    except OSError:  # a name that is too long
        return False


def _size(row: Values) -> int:
    parts = [part for value in row.values() for part in (value.values() if isinstance(value, dict) else (value,))]
    return sum(len(part) if isinstance(part, bytes | str) else getattr(part, "nbytes", 64) for part in parts)


# ---- formats ---------------------------------------------------------------------------------------------------------


def _examples(name: str) -> Iterator[Example]:
    standard = name in STANDARD_INPUT
    with nullcontext(sys.stdin.buffer) if standard else Path(name).open("rb") as file:
        source = _buffered(file)
        if source.peek(2)[:2] == b"\x1f\x8b":
            source = _buffered(gzip.GzipFile(fileobj=source))
        head = source.peek(BLOCK)[:BLOCK]
        if head.lstrip()[:1] == b"{":
            yield from _json_lines(source)
        elif head[257:262] == b"ustar":
            yield from _tars(source)
        else:
            begins = f"begins with {head[:20].decode('utf-8', 'replace')!r}" if head else "is empty"
            fact = f"{'standard input' if standard else name} {begins}"
            raise InputError(fact, "pipe a WebDataset tar or JSON Lines into it, plain or compressed with gzip")


def _buffered(file: Any) -> io.BufferedReader:
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)


def _json_lines(source: io.BufferedReader) -> Iterator[Example]:
    number = 0
    while line := source.readline(LONGEST + 1):
        number += 1
        place, row = f"line {number}", parse_object(line)
        yield Fault(row, place) if isinstance(row, str) else row, place, len(line)


def _tars(source: io.BufferedReader) -> Iterator[Example]:
    """Yield the examples of one tar after the other, as `cat` joins them. One that breaks off is an error."""
    while source.peek(1):
        with tarfile.open(fileobj=source, mode="r|", bufsize=BLOCK) as archive:
            for key, members in groupby(_members(archive), key=lambda member: member[0]):
                found: dict[str, Any] = {"__key__": key}
                size, row = 0, None
                for _, extension, content in members:
                    try:
                        if content is None:
                            raise Fault(f"member of more than {LARGEST >> 20} MiB", key)
                        size += len(content)
                        column = COLUMNS.get(extension, extension)
                        if column in FILES:
                            found[column] = {"path": f"{key}.{extension}", "bytes": content}
                        else:
                            found |= values_of_text(extension, content, key)
                    except Fault as fault:
                        row = fault
                yield row or found, key, size
        zeros = 0
        while head := source.peek(BLOCK):
            padding = len(head) - len(head.lstrip(b"\0"))
            source.read(padding)
            zeros += padding
            if padding < len(head):
                break
        if not zeros:  # tarfile takes this for an end
            raise tarfile.ReadError("unexpected end of data")


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, str, bytes | None]]:
    """Yield key, extension and content of every file; None is the content of one that is too large."""
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
        if member.isfile():
            file = archive.extractfile(member)
            assert file is not None
            yield *split_name(member.name), file.read() if member.size <= LARGEST else None
