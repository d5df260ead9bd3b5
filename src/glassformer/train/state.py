"""Checkpoints of a run: `state/step-00001000/` is written atomically, and verified before use.

Tensors are saved by name with torch.distributed.checkpoint, so that a run of two processes can be resumed with one or
four; the position of the run is stored next to them as JSON. A checkpoint records the BLAKE2 checksum of each file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from glassformer.errors import CheckpointError
from glassformer.train.distributed import SingleProcess

KEEP = 2  # number of checkpoints to keep
_POSITION, _CHECKSUMS = "position.json", "checksums.json"
_NEWEST = "newest_step"  # outside `state`, so that it survives if that folder is deleted


@dataclass
class Position:
    """The position of a run: everything a checkpoint holds besides its tensors."""

    step: int = 0
    epoch: int = 0
    number: int = 0  # of the next batch in the epoch
    batches: int = 0  # in the epoch; a different number when resuming means different data
    seconds: float = 0.0
    best: float | None = None
    best_loss: float | None = None  # of the best evaluation, if it has one
    best_step: int = 0
    stale: int = 0  # evaluations since the best one
    val: dict[str, float] = field(default_factory=dict)


def saved(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    return sorted(path for path in (folder / "state").glob("step-*") if path.suffix == "")


def newest_step(folder: Path) -> int | None:
    """Return the step of the newest checkpoint ever written, whether or not it still exists."""
    try:
        return int((folder / _NEWEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def remove_partial(folder: Path) -> None:
    """Remove checkpoints that a killed process left half-written or half-deleted."""
    for path in (folder / "state").glob("step-*.*"):
        shutil.rmtree(path)


def save_state(
    folder: Path, step: int, tensors: Mapping[str, Tensor], position: Mapping[str, Any], processes: SingleProcess
) -> Path:
    """Save a checkpoint: write it under a temporary name, checksum it, flush it to disk and rename it."""
    final = folder / "state" / f"step-{step:08d}"
    beside = final.with_name(final.name + ".writing")

    def prepare() -> None:
        if processes.is_main:
            beside.mkdir(parents=True, exist_ok=True)
            write_atomic(beside / _POSITION, json.dumps(position, indent=1))

    def write() -> None:
        _dcp_save(dict(tensors), beside, processes)

    def settle() -> None:
        if processes.is_main:
            write_atomic(beside / _CHECKSUMS, json.dumps(_checksums(beside), indent=1))
            _sync(beside)
            os.replace(beside, final)
            _sync(final.parent)
            write_atomic(folder / _NEWEST, str(step))
            _prune(folder)

    for part in (prepare, write, settle):  # after each of them, all processes agree on whether it succeeded
        error: BaseException | None = None
        try:
            part()
        except (OSError, CheckpointException) as caught:
            error = caught
        if processes.any(error is not None):
            shutil.rmtree(beside, ignore_errors=True)
            raise not_written(folder, step, error) from error
    return final


def _prune(folder: Path) -> None:
    for old in saved(folder)[:-KEEP]:
        gone = old.with_name(old.name + ".gone")  # a half-deleted checkpoint must not have a checkpoint's name
        os.replace(old, gone)
        shutil.rmtree(gone, ignore_errors=True)


def damage(path: Path) -> str | None:
    """Describe the damage to a checkpoint found by its checksums; None if it is intact."""
    try:
        stated = json.loads((path / _CHECKSUMS).read_text(encoding="utf-8"))
        missing = [name for name in stated if not (path / name).is_file()]
        if missing:
            return f"{missing[0]} is missing"
        found = _checksums(path)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return f"{_CHECKSUMS}: {_reason(error)}"
    changed = [name for name, digest in found.items() if stated.get(name) != digest]
    return f"the checksum of {changed[0]} does not match" if changed else None


def newest_intact(folder: Path, say: Callable[[str], None], processes: SingleProcess) -> Path | None:
    """Return the newest checkpoint whose checksums match, or None if the run has no checkpoint.

    Damaged checkpoints are reported. Raises an error if none is intact, or if all of them were deleted.
    """
    found = saved(folder)
    if not found:
        newest = newest_step(folder)
        if newest is None:
            return None
        fact = f"{folder / 'state'} had a checkpoint of step {newest}, and it has been deleted"
        raise CheckpointError(fact, "restore it, or delete the run folder and leave out --resume to start over")
    chosen = -1.0
    if processes.is_main:
        for i in reversed(range(len(found))):
            if (wrong := damage(found[i])) is None:
                chosen = float(i)
                break
            say(f"{found[i]} is damaged ({wrong}) and is not used")
    (chosen,) = processes.broadcast(chosen)
    if chosen < 0:
        fact = f"no checkpoint in {folder / 'state'} is intact ({found[-1].name}: {damage(found[-1])})"
        raise CheckpointError(fact, "restore one, or delete the run folder and leave out --resume to start over")
    path = found[int(chosen)]
    if processes.is_main:
        for damaged in found[int(chosen) + 1 :]:
            aside = damaged.with_name(f"damaged-{damaged.name}")
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(damaged, aside)
    processes.barrier()
    newest = newest_step(folder)
    if newest is not None and newest > step_of(found[-1]):
        say(f"the checkpoint of step {newest} is missing from {folder / 'state'}")
    return path


def load_state(path: Path, tensors: dict[str, Tensor], processes: SingleProcess) -> dict[str, Any]:
    """Load a checkpoint into the tensors in place and return its position."""
    try:
        position = json.loads((path / _POSITION).read_text(encoding="utf-8"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            dcp_load(tensors, checkpoint_id=str(path), no_dist=processes.world_size == 1)
    except (Exception, CheckpointException) as error:  # a damaged pickle may raise anything
        fact = f"{path} cannot be read ({_reason(error)})"
        raise CheckpointError(fact, "delete it to resume from the checkpoint before it") from error
    return dict(position)


def write_atomic(path: Path, text: str) -> None:
    """Write a file atomically: it is either complete and flushed to disk, or absent."""
    beside = path.with_name(path.name + ".writing")
    with open(beside, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync(path.parent)


def _checksums(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name != _CHECKSUMS and path.is_file():
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, hashlib.blake2b).hexdigest()[:32]
    return found


def _dcp_save(tensors: dict[str, Any], path: Path, processes: SingleProcess) -> None:
    writer = FileSystemWriter(str(path), sync_files=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp_save(tensors, storage_writer=writer, no_dist=processes.world_size == 1)


def _sync(folder: Path) -> None:
    """Flush a folder to disk, which makes a rename inside it durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def not_written(folder: Path, step: int, error: BaseException | None) -> CheckpointError:
    """Return the error for a full or missing disk, naming the last good checkpoint."""
    whole = saved(folder)
    last = f"the last good checkpoint is {whole[-1]}" if whole else "no checkpoint was written before it"
    fact = f"the checkpoint of step {step} could not be written ({_reason(error)}), and {last}"
    return CheckpointError(fact, "free some disk space and resume")


def _reason(error: BaseException | None) -> str:
    """Return a one-line reason: the operating system's message if one is found anywhere inside the error."""
    if isinstance(error, CheckpointException):
        error = next((inner[0] for inner in error.failures.values()), None)
    inside: BaseException | None = error
    while inside is not None:
        if isinstance(inside, OSError) and inside.strerror:
            return inside.strerror
        inside = inside.__cause__ or inside.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[-1] if error is not None else "another process"
