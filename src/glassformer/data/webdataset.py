"""WebDataset shards: tar files in which `key.jpg`, `key.cls` and `key.json` make one example, read in place.

Aizman, Maltby, Breuel, "High Performance I/O for Large Scale Deep Learning", 2019. Only the headers are read to index a
shard, and an example is read where it lies, so that nothing is unpacked and the data may be larger than memory.
"""

from __future__ import annotations

import glob
import math
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from glassformer.data import tables
from glassformer.data.faults import Fault, read_each
from glassformer.data.packed import Strings
from glassformer.data.tables import Values
from glassformer.errors import InputError

# the column that a member's extension stands for; others are columns of their own name
COLUMNS = {
    **dict.fromkeys(("jpg", "jpeg", "png", "ppm", "pgm", "webp", "bmp", "tif", "tiff", "gif"), "image"),
    **dict.fromkeys(("wav", "flac", "ogg", "mp3", "opus"), "audio"),
    **dict.fromkeys(("cls", "cls2", "label"), "label"),
    **dict.fromkeys(("txt", "text", "transcript"), "text"),
}
FILES = ("image", "audio")
LARGEST = 1 << 30  # bytes of one member
MOST = 1_000_000  # files of one pattern


def is_shard(path: Path) -> bool:
    """Return whether a tar file holds WebDataset examples: its first two members differ in their extension only."""
    if path.suffix.lower() != ".tar" or not path.is_file():
        return False
    try:
        with tarfile.open(path, "r:") as archive:
            first = [split_name(member.name) for member in islice(filter(tarfile.TarInfo.isfile, archive), 2)]
    except (tarfile.TarError, OSError, EOFError):
        return False
    return len(first) == 2 and first[0][0] == first[1][0] and first[0][1] != first[1][1]


def shards_of(folder: Path) -> list[Path]:
    """Return the shards in a folder, in the order of their names; [] if it has none, or other tar files."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".tar" and not path.name.startswith("."))
    return found if all(map(is_shard, found)) else []


def matching(pattern: str) -> list[Path]:
    """Return the files that a pattern names, such as `train-{0000..0147}.tar`, `{a,b}.csv` or `train-*.parquet`.

    Return [] for a name that is no pattern. Files named by braces must exist and keep their order; `*`, `?` and `[…]`
    match existing files, sorted.
    """
    if not any(mark in pattern for mark in "{*?["):
        return []
    found: list[Path] = []
    for name in expand_braces(pattern):
        files = sorted(glob.glob(name)) if glob.has_magic(name) else [name]
        if "{" in pattern and not all(map(os.path.isfile, files or [name])):
            raise InputError(f"{(files or [name])[0]} of {pattern} does not exist", "name files that exist")
        found += map(Path, files)
    return found


def expand_braces(pattern: str) -> list[str]:
    """Expand `{000..099}` and `{a,b}` as a shell does: `{0..1}-{a,b}` is 0-a, 0-b, 1-a, 1-b."""
    pieces = re.split(r"(\{\d+\.\.\d+\}|\{[^{}]*,[^{}]*\})", pattern)  # every other one is in braces
    parts = [_alternatives(piece) if i % 2 else [piece] for i, piece in enumerate(pieces)]
    if math.prod(map(len, parts)) > MOST:
        raise InputError(f"{pattern} names more than {MOST:,} files", "name fewer, or give their folder")
    return list(map("".join, product(*parts)))


def _alternatives(part: str) -> Sequence[str]:
    if "," in part:
        return part[1:-1].split(",")
    first, last = part[1:-1].split("..")
    numbers = range(int(first), int(last) + 1) if int(first) <= int(last) else range(int(first), int(last) - 1, -1)
    if len(numbers) > MOST:
        raise InputError(f"{part} names more than {MOST:,} files", "name fewer, or give their folder")
    width = max(len(first), len(last)) if first.startswith("0") or last.startswith("0") else 0
    return [str(number).zfill(width) for number in numbers]


def split_name(name: str) -> tuple[str, str]:
    """Return the key and extension of a member: everything up to, and after, the first dot of its file name."""
    path = PurePosixPath(name)
    stem, _, extension = path.name.partition(".")
    return str(path.with_name(stem or path.name)), extension.lower()


class Shards:
    """The examples of one or more shards, in the order of the files and their members."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        keys: list[str] = []
        shard: list[int] = []
        members: dict[str, dict[int, tuple[int, int]]] = {}
        for number, path in enumerate(self.paths):
            before = None
            for key, extension, start, size in self._members(path):
                if key != before:
                    keys.append(key)
                    shard.append(number)
                    before = key
                members.setdefault(extension, {})[len(keys) - 1] = start, size
        self.keys, self.shard = Strings(keys), np.array(shard, dtype=np.int32)
        self.places = {extension: _table(found, len(keys)) for extension, found in members.items()}
        self.names: list[str] = []
        for row in self.sample():
            self.names += [name for name in row if name not in self.names]

    @staticmethod
    def _members(path: Path) -> Iterator[tuple[str, str, int, int]]:
        try:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    if member.isfile():
                        yield *split_name(member.name), member.offset_data, member.size
                    elif not member.isdir():
                        fact = f"{path} contains {member.name}, which is not a file"
                        raise InputError(fact, "leave out links and devices")
                    archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
                if path.stat().st_size < archive.offset + tarfile.BLOCKSIZE:  # tarfile just stops there
                    raise tarfile.ReadError("it ends in the middle")
        except (tarfile.TarError, EOFError) as error:
            fact = f"{path} is not a complete tar file ({' '.join(str(error).split())[:60]})"
            raise InputError(fact, "write it again, uncompressed") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror})", "give shards that exist") from None

    def __len__(self) -> int:
        return len(self.keys)

    def sample(self) -> Sequence[Values]:
        return [row for row in islice(self.scan(), tables.SAMPLE) if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        """Yield every example without the bytes of its image or sound, which need not be read to list it."""
        return read_each(range(len(self)), partial(self._values, files=False))

    def read(self, i: int) -> Values:
        return self._values(i, files=True)

    def place(self, i: int) -> str:
        return f"{self.paths[self.shard[i]].name} {self.keys[i]}"

    def _values(self, i: int, *, files: bool) -> Values:
        found: dict[str, Any] = {"__key__": self.keys[i]}
        for extension, places in self.places.items():
            start, size = map(int, places[i])
            if start < 0:
                continue
            name = COLUMNS.get(extension, extension)
            if name in FILES:
                path = f"{self.paths[self.shard[i]].name}/{self.keys[i]}.{extension}"
                found[name] = {"path": path, "bytes": self._bytes(i, start, size) if files else None}
            else:
                found |= values_of_text(extension, self._bytes(i, start, min(size, tables.LONGEST)), self.place(i))
        return found

    def _bytes(self, i: int, start: int, size: int) -> bytes:
        if size > LARGEST:
            raise Fault(f"member of more than {LARGEST >> 20} MiB", self.place(i))
        try:
            with self.paths[self.shard[i]].open("rb") as file:
                file.seek(start)
                data = file.read(size)
        except OSError:
            raise Fault("unreadable shard", self.place(i)) from None
        if len(data) != size:
            raise Fault(tables.CHANGED, self.place(i))
        return data


def values_of_text(extension: str, content: bytes, place: str) -> dict[str, Any]:
    """Return the columns of a member that is no image or sound: the keys of a JSON object, or one text."""
    try:
        text = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise Fault("not UTF-8", place) from None
    if extension != "json":
        return {COLUMNS.get(extension, extension): text}
    row = tables.parse_object(content)
    if isinstance(row, str):
        raise Fault(row, place)
    return dict(row)


def _table(found: dict[int, tuple[int, int]], rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return (start, size) of a member for every example; −1 where an example lacks it."""
    table = np.full((rows, 2), -1, dtype=np.int64)
    if found:
        table[list(found)] = list(found.values())
    return table
