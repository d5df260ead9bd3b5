"""Image datasets: one folder per class, a table of files and labels, or a Python dataset; decoded on demand."""

from __future__ import annotations

import io
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.faults import Fault, Faults
from glassformer.data.order import spread
from glassformer.data.packed import Strings
from glassformer.data.rows import ClassFolders, Row, RowDataset, Rows, Source, name_of, open_rows
from glassformer.data.stream import UNKNOWN_CLASS, Window, is_later_window
from glassformer.errors import GlassError, InputError

if TYPE_CHECKING:
    from PIL.Image import Image

HEADERS = 5000  # files whose header is read when a dataset is opened; on a network each may take milliseconds
KEEP = 1 << 30  # maximum size of the cache of decoded images, in bytes


class Images(RowDataset):
    """A labelled image dataset with `label(i)` and `image(i)` for row i.

    `labels` are the class names; `faults` are the rows skipped when the dataset was opened.

    Decoded images are cached in one block of memory shared by forked workers if all of them fit in `keep` bytes
    (only pages that have been written use memory).
    """

    def __init__(self, rows: Rows, files: Strings, targets: NDArray[np.int64], labels: tuple[str, ...]) -> None:
        self.rows, self.files, self.targets, self.labels = rows, files, targets, labels
        self.size: tuple[int, int] | None = None
        self.channels: int | None = None
        self.keep = KEEP
        self.cache: ImageCache | None = None

    @classmethod
    def open(
        cls,
        path: Source,
        columns: Mapping[str, str] | None = None,
        *,
        size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        labels: Sequence[str] | None = None,
        keep: int = KEEP,
    ) -> Images:
        """Open a folder with one subfolder per class, or a table of files (relative to it) and labels.

        `columns` may name the columns of `image` and `label`.
        `size` is the (rows, columns) every image is resized to; by default images keep their own size. `channels` is
        1 or 3, by default that of the first image. `labels` are the classes of a dataset opened before, in order.
        """
        if channels not in (None, 1, 3):
            raise InputError(f"channels must be 1 or 3, got {channels}", "choose 1 (grey) or 3 (colour)")
        if size is not None and min(size if isinstance(size, tuple) else (size,)) < 1:
            raise InputError(f"image size must be at least 1, got {size}", "choose at least 1 pixel")
        files: list[str] = []
        named: list[bool] = []  # whether the row names a file instead of containing the image
        classes: list[str] = []

        def check(row: Row) -> str:
            label = "" if row["label"] is None else str(row["label"]).strip()
            image = row["image"]
            name = image.get("path") if isinstance(image, dict) else image
            if not label or image is None or (isinstance(image, str) and not image.strip()):
                return "empty path or label"
            if isinstance(path, Window) and labels is not None and label not in labels:
                return UNKNOWN_CLASS
            files.append(name.strip() if isinstance(name, str) else "")
            named.append(isinstance(image, str))
            classes.append(label)
            return ""

        rows = open_rows(path, ("image", "label"), given=columns, check=check)
        rows.require_some(f"{name_of(path)} has no images", "put them in a folder for each class, as PNG, JPEG, …")
        unusable = _unusable(rows, {i: file for i, file in enumerate(files) if named[i]})
        if unusable:
            rest = [i for i in range(len(rows)) if i not in unusable]
            rows, files, classes = rows.without(unusable), [files[i] for i in rest], [classes[i] for i in rest]
        names = class_names(set(classes), labels, path)
        number = {name: i for i, name in enumerate(names)}
        targets = np.array([number[label] for label in classes], dtype=np.int64)
        places = Strings(file or rows.place(i) for i, file in enumerate(files))
        images = cls(rows, places, targets, names)
        images.size = (size, size) if isinstance(size, int) else size
        images.channels = channels
        images.keep = keep
        images._prepare()
        return images

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, rows, columns) of the first readable image, and of all images if `size` was passed."""
        return self._shape

    def label(self, i: int) -> int:
        return int(self.targets[i])

    def image(self, i: int) -> Tensor:
        """Return a copy of image i, (channels, rows, columns) uint8. Raises Fault if it cannot be read."""
        if self.cache is not None and (kept := self.cache.get(i)) is not None:
            return kept
        pixels = self._read(i)
        if self.cache is not None and tuple(pixels.shape) == self._shape:
            self.cache.put(i, pixels)
        return pixels

    def part(self, rows: NDArray[np.int64]) -> Images:
        """Return the subset of these rows, in this order, with the same classes, size and channels."""
        files = Strings(self.files[int(i)] for i in rows)
        images = Images(self.rows.part(rows), files, self.targets[rows], self.labels)
        images.size, images.channels, images.keep = self.size, self.channels, self.keep
        images._prepare()
        return images

    def like(self, source: Source) -> Images:
        channels, *size = self.shape
        return Images.open(
            source, self.rows.given, size=(size[0], size[1]), channels=channels, labels=self.labels, keep=self.keep
        )

    def picture(self, i: int) -> Image:
        """Return image i as a Pillow image. Raises Fault if it cannot be read."""
        from glassformer.checkpoints.preprocess import image_of, open_image

        given = self.rows[i]["image"]
        data = given.get("bytes") if isinstance(given, dict) else given
        try:
            if isinstance(data, bytes):
                return open_image(io.BytesIO(data))
            if not isinstance(given, str | dict):
                return image_of(given)
            path = self.rows.locate(self.files[i], "image")
            if path is None:
                raise Fault("missing image", self.files[i])
            return open_image(path)
        except InputError as error:
            if isinstance(given, str | dict):
                raise image_fault(error, self.files[i]) from None
            raise Fault(f"{error}", self.files[i]) from None

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Set channels, shape and cache size from the first readable image."""
        tally = Faults()
        for i in range(len(self)):
            try:
                first = self._read(i)
            except Fault as fault:
                tally.count(fault)
                self.faults.note(fault)
                if tally.failed > 100:
                    break
                continue
            self.channels = first.shape[0]
            c, h, w = first.shape
            self._shape = (c, h, w)
            if len(self) * first.numel() <= self.keep:
                self.cache = ImageCache(len(self), self._shape)
            return
        if is_later_window(self.rows.reader) and self.channels is not None and self.size is not None:
            self._shape = (self.channels, *self.size)  # whatever is unreadable is counted when it is used
            return
        tally.check(1)

    def _read(self, i: int) -> Tensor:
        from PIL.Image import Resampling

        from glassformer.checkpoints.preprocess import opaque

        image = self.picture(i)
        channels = self.channels or (1 if image.mode in ("1", "L", "LA") else 3)
        image = opaque(image, "L" if channels == 1 else "RGB")
        if self.size is not None and image.size != self.size[::-1]:
            image = image.resize(self.size[::-1], Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image, dtype=np.uint8))
        return pixels[None] if channels == 1 else pixels.movedim(-1, 0).contiguous()


def _unusable(rows: Rows, files: Mapping[int, str]) -> dict[int, Fault]:
    """Return the rows whose file is missing or lacks an image header, to leave them out before training starts.

    `files` are the file names by row. The headers of HEADERS files, evenly spaced, are read; a truncated file is
    noticed when it is read. If more than half of the files are unusable, InputError is raised.
    """
    from PIL.Image import open as open_header

    found: dict[int, Fault] = {}
    listed = list(files)
    checked = {listed[k] for k in spread(len(listed), HEADERS)}
    for i, file in files.items():
        if isinstance(rows.reader, ClassFolders):  # this reader lists existing files only
            path: Path | None = rows.root / file
        else:
            path = rows.locate(file, "image")
        if path is None:
            found[i] = Fault("missing image", file)
            continue
        try:
            if i in checked:
                open_header(path).close()
        except Exception:  # Pillow's readers raise arbitrary errors on damaged files
            found[i] = Fault("unreadable image", file)
    if not is_later_window(rows.reader):
        tally = Faults()
        for fault in found.values():
            tally.count(fault)
        tally.count_usable(len(files) - len(found))
        tally.check(1)
    return found


def image_fault(error: GlassError, name: str) -> Fault:
    """Return the reason without the file name, so that images with the same problem are reported in one line."""
    return Fault("missing image" if "there is no" in error.fact else "unreadable image", name)


class ImageCache:
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


def class_names(found: set[str], given: Sequence[str] | None, path: Source, *, least: int = 2) -> tuple[str, ...]:
    """Return the class names in order: numbers numerically, words alphabetically. `given` are those of other data."""
    if given is not None:
        unknown = sorted(found - set(given))
        if unknown:
            fact = f"{name_of(path)} has the class {unknown[0]!r}, which is not one of {', '.join(given)[:80]}"
            raise InputError(fact, "leave it out, or train with it")
        return tuple(given)
    if len(found) < least:
        only = f"only the class {min(found)!r}" if found else "no class"
        raise InputError(f"{name_of(path)} has {only}", f"give data of at least {least} classes")
    return tuple(sorted(found, key=lambda name: (int(name), name) if name.isascii() and name.isdigit() else (-1, name)))
