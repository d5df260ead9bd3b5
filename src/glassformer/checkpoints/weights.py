"""name → tensor: the safetensors files of a folder, memory-mapped and read on demand."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoints.header import TensorEntry, read_header
from glassformer.errors import CheckpointError

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


class Weights:
    """Tensors of one or more files. `read` returns private (copy-on-write) views: writing to them changes no file.

    The files are mapped here and not by the safetensors library so that pages can be released (`release`) once a tensor
    is converted to another dtype; otherwise the file would stay in memory beside the model.
    """

    def __init__(self, entries: dict[str, TensorEntry], metadata: dict[str, str] | None = None) -> None:
        self.entries = entries
        self.metadata = metadata or {}
        self._maps: dict[Path, mmap.mmap] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __or__(self, other: Weights) -> Weights:
        both = self.entries.keys() & other.entries.keys()
        if both:
            raise CheckpointError(f"weight {min(both)} is in two files", "keep one of them")
        return Weights(self.entries | other.entries)

    def renamed(self, prefix: str) -> Weights:
        return Weights({prefix + name: entry for name, entry in self.entries.items()})

    @property
    def numbers(self) -> int:
        """The total count of numbers."""
        return sum((entry.stop - entry.start) // entry.dtype.itemsize for entry in self.entries.values())

    def read(self, name: str) -> Tensor:
        entry = self.entries[name]
        if entry.start == entry.stop:
            return torch.empty(entry.shape, dtype=entry.dtype)
        if entry.start % entry.dtype.itemsize:  # torch requires aligned offsets
            data = bytearray(self._map(entry.file)[entry.start : entry.stop])
            return torch.frombuffer(data, dtype=entry.dtype).view(entry.shape)
        count = (entry.stop - entry.start) // entry.dtype.itemsize
        flat = torch.frombuffer(self._map(entry.file), dtype=entry.dtype, count=count, offset=entry.start)
        return flat.view(entry.shape)

    def release(self, name: str) -> None:
        """Release a tensor's pages; they are read from the file again if needed."""
        entry = self.entries[name]
        first = -(-entry.start // mmap.PAGESIZE) * mmap.PAGESIZE  # whole pages only: edges are shared with neighbours
        last = entry.stop // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first and hasattr(mmap, "MADV_DONTNEED"):
            self._map(entry.file).madvise(mmap.MADV_DONTNEED, first, last - first)

    def _map(self, path: Path) -> mmap.mmap:
        if path not in self._maps:
            with path.open("rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self._maps[path]


def open_weights(path: Path) -> Weights:
    """Open the weights of a file, or of a folder with `model.safetensors` or a sharded index. No pickle is opened."""
    if path.is_dir():
        if (path / ONE).is_file():
            return _single(path / ONE)
        if (path / INDEX).is_file():
            return _sharded(path)
        single = sorted(path.glob("*.safetensors"))
        if len(single) == 1 and single[0].is_file():
            return _single(single[0])
        raise _no_weights(path)
    if not path.is_file():
        raise CheckpointError(f"there is no {path}", "give a folder with config.json and model.safetensors")
    if path.suffix in PICKLES:
        raise _pickle(path)
    return _single(path)


def _single(path: Path) -> Weights:
    entries, metadata = read_header(path)
    return Weights(entries, metadata)


def _sharded(folder: Path) -> Weights:
    """Open all shards in the index; each tensor must be in the shard the index names and in no other."""
    try:
        places = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(places.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{INDEX} has no weight_map from names to files", "download it again") from None
    entries: dict[str, TensorEntry] = {}
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise CheckpointError(f"{INDEX} points to {str(shard)!r}", "shards are safetensors of the same folder")
        if not (folder / shard).is_file():
            raise CheckpointError(f"shard {shard} of {INDEX} is missing", "download all shards of the checkpoint")
        for name, entry in read_header(folder / shard).entries.items():
            if places.get(name) != shard:
                fact = f"weight {name} is in {shard}, and {INDEX} places it in {places.get(name)}"
                raise CheckpointError(fact, "download the index and the shards from the same place")
            entries[name] = entry
    for name, shard in places.items():
        if name not in entries:
            raise CheckpointError(
                f"weight {name} is not in {shard} where {INDEX} places it", "download the shard again"
            )
    return Weights(entries)


def _no_weights(folder: Path) -> CheckpointError:
    pickles = sorted(p for p in folder.iterdir() if p.suffix in PICKLES and p.is_file())
    if pickles:
        return _pickle(pickles[0])
    return CheckpointError(f"{folder} has no {ONE}", f"give a folder with config.json and {ONE} (or {INDEX})")


def _pickle(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path.name} is a pickle, which can run code when it is opened",
        f"convert it first: glassformer convert {path} -o FOLDER",
    )
