"""The folder of a run: a lock, the arguments it was started with, and the batch that made it fail, if any."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from glassformer.checkpoints.codec import encode
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.train import state
from glassformer.train.args import DEFAULTS_PLAIN, TrainArgs, derived, difference, fixed, from_python
from glassformer.train.batches import BatchJob
from glassformer.train.distributed import SingleProcess
from glassformer.train.ema import tensors_of
from glassformer.train.objective import Batch, Fingerprinted, Objective

RECORD = "run.json"


def open_run(
    folder: Path,
    args: TrainArgs,
    model: nn.Module,
    objective: Objective,
    resume: bool,
    processes: SingleProcess,
    say: Callable[[str], None],
) -> Path | None:
    """Return the checkpoint to resume from, or None to start at step 0. Arguments, objective and model must match."""
    now, file = _record(args, model, objective), folder / RECORD
    processes.barrier()
    check_unused(folder, resume)
    started = resume and file.exists()
    if started:
        _require_same(folder, file, now)
    found = state.newest_intact(folder, say, processes) if resume else None
    processes.barrier()  # every process has checked before any of them writes
    wrong = None
    if processes.is_main:
        try:
            state.remove_partial(folder)
            if not started:
                folder.mkdir(parents=True, exist_ok=True)
                state.write_atomic(file, json.dumps({**now, "checksum": _checksum(now)}, indent=1))
        except OSError as error:
            wrong = _cannot_write(folder, error)
    _raise_together(wrong, folder, processes)
    if resume and processes.is_main:
        nothing = f"{folder} has no checkpoint yet: starting at step 0"
        say(nothing if found is None else f"resuming from step {state.step_of(found):,} ({found})")
    return found


def recorded_args(folder: Path | None) -> dict[str, Any]:
    """Return the arguments that a run was started with; empty if there is no run."""
    if folder is None or not (folder / RECORD).exists():
        return {}
    return dict(_read_record(folder / RECORD)["args"])


def _read_record(file: Path) -> dict[str, Any]:
    """Read `run.json`, whose checksum must match; runs from before 2026-11-18 have none."""
    remedy = "restore it, or start again in another folder"
    try:
        then = json.loads(file.read_text(encoding="utf-8"))
        stated = then.pop("checksum", None)
        known = then["args"].keys() <= DEFAULTS_PLAIN.keys() and isinstance(then["model"], dict)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file} is not the record of a run", remedy) from error
    if stated is not None and stated != _checksum(then):
        raise CheckpointError(f"{file} is damaged (its checksum does not match)", remedy)
    if not known:
        raise CheckpointError(f"{file} is not the record of a run", remedy)
    return dict(then)


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=16).hexdigest()


def resumed_options(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that is resumed: those it was started with, unless they are given anew."""
    before = {name: value for name, value in recorded_args(folder).items() if value != DEFAULTS_PLAIN[name]}
    before = {f"{name}_" if name == "from" else name: value for name, value in before.items()}
    for name in ("data", "val"):
        if from_python(before.get(name)):
            del before[name]
    before.pop("warmup", None)  # `fit` keeps it, unless it no longer fits
    if {"steps", "epochs"} & given.keys():
        for name, value in derived(before.pop("steps", 0)).items():
            if before.get(name) == value:
                del before[name]
    return {**before, **given}


def _record(args: TrainArgs, model: nn.Module, objective: Objective) -> dict[str, Any]:
    """Return the content of `run.json`: arguments, objective fingerprint, model config and weight shapes."""
    now: dict[str, Any] = {"args": args.as_dict()}
    if isinstance(objective, Fingerprinted):
        now["objective"] = objective.fingerprint()
    config = getattr(model, "config", None)
    if type(model).__module__.startswith("glassformer.models.") and is_dataclass(config):
        now["config"] = encode(config)
    now["model"] = {name: _form(tensor.shape, tensor.dtype) for name, tensor in tensors_of(model).items()}
    read: dict[str, Any] = json.loads(json.dumps(now))  # as JSON reads it back: tuples become lists
    return read


def check_unused(folder: Path, resume: bool) -> None:
    """Raise an error if the folder holds a run that would be overwritten."""
    found = state.saved(folder)
    if found and not resume:
        fact = f"{folder} contains a run at step {state.step_of(found[-1]):,}"
        raise ConfigError(fact, "add --resume to continue it, or choose another folder")


@contextmanager
def locked(folder: Path | None, processes: SingleProcess) -> Iterator[None]:
    """Lock the folder for the duration of the run: two runs in one folder would mix their checkpoints.

    The lock belongs to the process, not to the file: forked workers that outlive a killed run do not hold it.
    """
    with ExitStack() as stack:
        wrong = None
        if folder is not None and processes.is_main:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(folder / "lock", "ab+", buffering=0))
            except OSError as error:
                wrong = _cannot_write(folder, error)
            else:
                wrong = _lock(folder, file)
        _raise_together(wrong, folder, processes)
        yield


def _raise_together(wrong: ConfigError | None, folder: Path | None, processes: SingleProcess) -> None:
    """Raise in every process if the main process failed, so that none waits for a process that has exited."""
    if processes.any(wrong is not None):
        raise wrong or ConfigError(f"the main process cannot use {folder}", "see its message")


def _cannot_write(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{folder} cannot be written ({error.strerror})", "free some disk space, or choose another folder"
    )


def _lock(folder: Path, file: IO[bytes]) -> ConfigError | None:
    """Lock the file and record the owner in it; returns an error if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):  # otherwise the file system has no locks, or is full
            file.seek(0)
            fact = f"{folder} is in use by another run ({file.read().decode() or 'of another process'})"
            return ConfigError(fact, "wait for it or end it, or choose another folder")
    return None


def _require_same(folder: Path, file: Path, now: dict[str, Any]) -> None:
    then = _read_record(file)
    then["args"], now = fixed(then["args"]), now | {"args": fixed(now["args"])}
    names = {
        "args": "arguments",
        "objective": "data or objective settings",
        "config": "model settings",
        "model": "weights",
    }
    for part, what in names.items():
        if part not in then or part not in now:  # not every objective has a fingerprint
            continue
        if (other := difference(then[part], now[part])) is not None:
            remedy = "resume with the original settings, or start again in another folder"
            raise ConfigError(f"{folder} was started with different {what}: {other}", remedy)


def _form(shape: Sequence[int], dtype: object) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"


def not_finite(
    folder: Path | None, step: int, what: str, value: float, turns: Sequence[tuple[BatchJob, Batch | None]], rank: int
) -> GlassError:
    """Return the error that ends a run whose loss or gradient is not finite, after saving the batch that caused it."""
    fact = f"the {what} of step {step} is {value}"
    had = [(job, batch) for job, batch in turns if batch is not None]
    if folder is None or not had:
        return InputError(fact, "lower the learning rate, or inspect the data of that step")
    tensors = {
        f"{name}.{i}" if len(had) > 1 else name: tensor.detach().cpu().contiguous().clone()
        for i, (_, batch) in enumerate(had)
        for name, tensor in batch.items()
    }
    path = folder / (f"broken-step-{step:08d}" + (f"-{rank}" if rank else "") + ".safetensors")
    about = {"step": str(step), "rows": json.dumps([list(map(int, job.rows)) for job, _ in had]), what: str(value)}
    try:
        save_file(tensors, path, metadata=about | {"seeds": json.dumps([job.seed for job, _ in had])})
    except (OSError, SafetensorError) as error:  # a full disk must not hide the reason the run ended
        fact = f"{fact}; its batch, rows {about['rows'][:80]}, could not be saved ({error})"
        return InputError(fact, "lower the learning rate, or inspect that batch")
    return InputError(f"{fact}; its batch is saved in {path}", "lower the learning rate, or inspect that batch")
