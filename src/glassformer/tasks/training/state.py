"""A run on disk: `state/step-00001000/` is there entirely or not at all, whatever happens while it is written.

Tensors go through torch.distributed.checkpoint, each under its name, so that a run of two processes goes on with one or
four; the counters beside them are JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from glassformer.errors import CheckpointError
from glassformer.tasks.training.spread import Spread

KEEP = 2
_PLACE = "position.json"


def steps(folder: Path) -> list[Path]:
    """The whole states of a run, oldest first."""
    return sorted(path for path in (folder / "state").glob("step-*") if path.suffix == "")


def sweep(folder: Path) -> None:
    """Away with what a killed process left half-written or half-deleted."""
    for path in (folder / "state").glob("step-*.*"):
        shutil.rmtree(path)


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], place: Mapping[str, Any], spread: Spread) -> Path:
    """Written beside, brought to the disk, renamed: only then is it called a state."""
    final = folder / "state" / f"step-{step:08d}"
    beside = final.with_name(final.name + ".writing")

    def prepare() -> None:
        if spread.first:
            beside.mkdir(parents=True, exist_ok=True)
            write_whole(beside / _PLACE, json.dumps(place, indent=1))

    def write() -> None:
        _dcp_save(dict(tensors), beside, spread)

    def settle() -> None:
        if spread.first:
            _sync(beside)
            os.replace(beside, final)
            _sync(final.parent)
            _prune(folder)

    for part in (prepare, write, settle):  # after each the processes agree on whether it went well
        error: BaseException | None = None
        try:
            part()
        except (OSError, CheckpointException) as caught:
            error = caught
        if spread.any(error is not None):
            shutil.rmtree(beside, ignore_errors=True)
            raise not_written(folder, step, error) from error
    return final


def _prune(folder: Path) -> None:
    for old in steps(folder)[:-KEEP]:
        gone = old.with_name(old.name + ".gone")  # no half-deleted state under a state's name
        os.replace(old, gone)
        shutil.rmtree(gone, ignore_errors=True)


def load(path: Path, tensors: dict[str, Tensor], spread: Spread) -> dict[str, Any]:
    """Fills the tensors in place, whatever number of processes wrote them; gives the counters."""
    try:
        place = json.loads((path / _PLACE).read_text(encoding="utf-8"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            dcp_load(tensors, checkpoint_id=str(path), no_dist=spread.world == 1)
    except (OSError, ValueError, RuntimeError, EOFError, CheckpointException) as error:
        fact = f"{path} cannot be read ({_reason(error)})"
        raise CheckpointError(fact, "delete it to go on from the state before it") from error
    return dict(place)


def write_whole(path: Path, text: str) -> None:
    """The file with this text, on the disk; never half of it under its name."""
    beside = path.with_name(path.name + ".writing")
    with open(beside, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync(path.parent)


def _dcp_save(tensors: dict[str, Any], path: Path, spread: Spread) -> None:
    writer = FileSystemWriter(str(path), sync_files=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp_save(tensors, storage_writer=writer, no_dist=spread.world == 1)


def _sync(folder: Path) -> None:
    """A rename is on the disk once the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def not_written(folder: Path, step: int, error: BaseException | None) -> CheckpointError:
    """A disk that is full or gone: what is safe all the same."""
    whole = steps(folder)
    last = f"the last good state is {whole[-1]}" if whole else "no state was written before it"
    fact = f"the state of step {step} could not be written ({_reason(error)}), and {last}"
    return CheckpointError(fact, "make room and resume")


def _reason(error: BaseException | None) -> str:
    """One line of it: the system's own word, if that is anywhere inside of what torch has wrapped around it."""
    if isinstance(error, CheckpointException):
        error = next((inner[0] for inner in error.failures.values()), None)
    inside: BaseException | None = error
    while inside is not None:
        if isinstance(inside, OSError) and inside.strerror:
            return inside.strerror
        inside = inside.__cause__ or inside.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[-1] if error is not None else "another process"
