"""Image datasets: one folder per class, or a CSV of paths and labels; decoded on demand."""

from __future__ import annotations

import csv
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.faults import Fault, Faults
from glassformer.data.packed import Strings, unreadable
from glassformer.errors import GlassError, InputError

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"))
SPLITS = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev"))
PATH_COLUMNS, LABEL_COLUMNS = ("path", "file", "filename", "image"), ("label", "class", "category")
KEEP = 1 << 30  # maximum size of the cache of decoded images, in bytes


class Images:
    """A labelled image dataset with `label(i)` and `image(i)` for row i.

    `labels` are the class names; `faults` are the rows skipped when the dataset was opened.

    Decoded images are cached in one block of memory shared by forked workers if all of them fit in `keep` bytes
    (only pages that have been written use memory).
    """

    def __init__(
        self, root: Path, files: Strings, targets: NDArray[np.int64], labels: tuple[str, ...], faults: Faults
    ) -> None:
        self.root, self.files, self.targets, self.labels, self.faults = root, files, targets, labels, faults
        self.size: tuple[int, int] | None = None
        self.channels: int | None = None
        self.keep = KEEP
        self.shelf: Shelf | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        labels: Sequence[str] | None = None,
        keep: int = KEEP,
    ) -> Images:
        """Open a folder with one subfolder per class, or a CSV with columns path and label (relative to the CSV).

        `size` is the (rows, columns) every image is resized to; by default images keep their own size. `channels` is
        1 or 3, by default that of the first image. `labels` are the classes of a dataset opened before, in order.
        """
        path = Path(path)
        if channels not in (None, 1, 3):
            raise InputError(f"images of {channels} channels", "take 1 (grey) or 3 (colour)")
        if size is not None and min(size if isinstance(size, tuple) else (size,)) < 1:
            raise InputError(f"images of size {size}", "take at least 1 pixel")
        faults = Faults()
        found = _folders(path) if path.is_dir() else _table(path, faults)
        rows = list(found)
        faults.check(1)
        if not rows:
            raise InputError(f"{path} has no images", "put them in a folder for each class, as PNG, JPEG, …")
        names = _names({label for _, label in rows}, labels, path)
        number = {name: i for i, name in enumerate(names)}
        targets = np.array([number[label] for _, label in rows], dtype=np.int64)
        root = path if path.is_dir() else path.parent
        images = cls(root, Strings(file for file, _ in rows), targets, names, faults)
        images.size = (size, size) if isinstance(size, int) else size
        images.channels = channels
        images.keep = keep
        images._prepare()
        return images

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, rows, columns) of the first readable image, and of all images if `size` was passed."""
        return self._shape

    def label(self, i: int) -> int:
        return int(self.targets[i])

    def image(self, i: int) -> Tensor:
        """Return a copy of image i, (channels, rows, columns) uint8. Raises Fault if it cannot be read."""
        if self.shelf is not None and (kept := self.shelf.get(i)) is not None:
            return kept
        pixels = self._read(i)
        if self.shelf is not None and tuple(pixels.shape) == self._shape:
            self.shelf.put(i, pixels)
        return pixels

    def part(self, rows: NDArray[np.int64]) -> Images:
        """Return the subset of these rows, in this order, with the same classes, size and channels."""
        files = Strings(self.files[int(i)] for i in rows)
        images = Images(self.root, files, self.targets[rows], self.labels, Faults())
        images.size, images.channels, images.keep = self.size, self.channels, self.keep
        images._prepare()
        return images

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Set channels, shape and cache size from the first readable image."""
        for i in range(len(self)):
            try:
                first = self._read(i)
            except Fault as fault:
                self.faults.count(fault)
                if self.faults.failed > 100:
                    break
                continue
            self.channels = first.shape[0]
            c, h, w = first.shape
            self._shape = (c, h, w)
            if len(self) * first.numel() <= self.keep:
                self.shelf = Shelf(len(self), self._shape)
            return
        self.faults.check(1)

    def _read(self, i: int) -> Tensor:
        from PIL import Image

        from glassformer.checkpoints.preprocess import opaque, open_image

        name = self.files[i]
        try:
            image = open_image(self.root / name)
        except InputError as error:
            raise image_fault(error, name) from None
        channels = self.channels or (1 if image.mode in ("1", "L", "LA") else 3)
        image = opaque(image, "L" if channels == 1 else "RGB")
        if self.size is not None and image.size != self.size[::-1]:
            image = image.resize(self.size[::-1], Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image, dtype=np.uint8))
        return pixels[None] if channels == 1 else pixels.movedim(-1, 0).contiguous()


def image_fault(error: GlassError, name: str) -> Fault:
    """Return the reason without the file name, so that images with the same problem are reported in one line."""
    reasons = {"there is no": "missing image", "more than 8 bits": "image of more than 8 bits a channel"}
    return Fault(next((said for part, said in reasons.items() if part in error.fact), "unreadable image"), name)


class Shelf:
    """A cache of decoded images, (n, c, h, w) uint8, in memory shared by forked workers.

    It does not use torch's shared memory, which lives in /dev/shm, where containers often have only 64 MB. A process
    that is spawned instead of forked starts with an empty cache.
    """

    def __init__(self, n: int, shape: tuple[int, int, int]) -> None:
        self.n, self.shape = n, shape
        self._allocate()

    def _allocate(self) -> None:
        each = int(np.prod(self.shape))
        block = np.frombuffer(mmap.mmap(-1, self.n * (each + 1)), dtype=np.uint8)
        self.there = block[: self.n]
        self.pixels = block[self.n :].reshape(self.n, *self.shape)

    def get(self, i: int) -> Tensor | None:
        return torch.from_numpy(self.pixels[i].copy()) if self.there[i] else None

    def put(self, i: int, pixels: Tensor) -> None:
        """Store row i. Two workers may write it at once, but with equal values; the flag is set last."""
        self.pixels[i] = pixels.numpy()
        self.there[i] = 1

    def __getstate__(self) -> dict[str, Any]:
        return {"n": self.n, "shape": self.shape}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.n, self.shape = state["n"], state["shape"]
        self._allocate()


# ---- finding ---------------------------------------------------------------------------------------------------------


def _folders(root: Path) -> Iterator[tuple[str, str]]:
    """List (file, class) of every image under root/class/, sorted by name; hidden and other files are skipped."""
    classes = sorted(one.name for one in os.scandir(root) if one.is_dir() and not one.name.startswith("."))
    if classes and {name.lower() for name in classes} <= SPLITS:
        fact = f"{root} has no classes but the parts {', '.join(classes)}"
        raise InputError(fact, f"open one of them: {root / classes[0]}")
    for name in classes:
        for folder, below, files in os.walk(root / name):
            below[:] = sorted(one for one in below if not one.startswith("."))
            inside = os.path.relpath(folder, root)
            for file in sorted(files):
                if os.path.splitext(file)[1].lower() in SUFFIXES and not file.startswith("."):
                    yield os.path.join(inside, file), name


def _table(path: Path, faults: Faults) -> Iterator[tuple[str, str]]:
    """List (file, label) of every row of a CSV with a header (separated by comma, semicolon or tab)."""
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            header = file.readline()
            comma = max(",;\t", key=header.count)
            columns = [one.strip().lower() for one in next(csv.reader([header], delimiter=comma), [])]
            at = [_column(columns, wanted, path) for wanted in (PATH_COLUMNS, LABEL_COLUMNS)]
            for number, row in enumerate(csv.reader(file, delimiter=comma), 2):
                place = f"{path.name} line {number}"
                if not any(one.strip() for one in row):
                    faults.count(Fault("empty line", place))
                elif len(row) != len(columns):
                    faults.count(Fault(f"wrong number of columns (not {len(columns)})", place))
                elif not all(row[i].strip() for i in at):
                    faults.count(Fault("empty path or label", place))
                else:
                    faults.good()
                    yield row[at[0]].strip(), row[at[1]].strip()
    except OSError as error:
        raise unreadable(path, error) from None
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV ({error})", "give a table with the columns path and label") from None


def _column(columns: list[str], wanted: Iterable[str], path: Path) -> int:
    for name in wanted:
        if name in columns:
            return columns.index(name)
    name = next(iter(wanted))
    fact = f"{path} has no column {name}, but {', '.join(columns)[:80] or 'nothing'}"
    raise InputError(fact, f"call one {name} in its first line")


def _names(found: set[str], given: Sequence[str] | None, path: Path) -> tuple[str, ...]:
    """Return the class names in order: numbers numerically, words alphabetically."""
    if given is not None:
        unknown = sorted(found - set(given))
        if unknown:
            fact = f"{path} has the class {unknown[0]!r}, which is none of {', '.join(given)[:80]}"
            raise InputError(fact, "leave it out, or train with it")
        return tuple(given)
    if len(found) < 2:
        raise InputError(f"{path} has only the class {min(found)!r}", "give images of at least 2 classes")
    return tuple(sorted(found, key=lambda name: (int(name), name) if name.isascii() and name.isdigit() else (-1, name)))
