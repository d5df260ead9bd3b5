"""The folder of a run: its lock, its arguments, and the batch that made it fail, if any."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from glassformer.checkpoints.codec import encode
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.train import state
from glassformer.train.args import (
    DEFAULTS,
    DEFAULTS_PLAIN,
    LR_ARGS,
    ChangedValue,
    TrainArgs,
    derived,
    difference,
    fixed,
    flag,
    from_python,
)
from glassformer.train.batches import BatchJob
from glassformer.train.distributed import SingleProcess
from glassformer.train.ema import tensors_of
from glassformer.train.objective import Batch, Fingerprinted, Objective

RECORD = "run.json"
BATCH_SIZES = ("batch_size", "batch_tokens", "batch_seconds")  # of objectives
DATA = {"data": "the training data", "val": "the validation data", "tokenizer": "the tokenizer"}  # in fingerprints
# Options whose default is chosen by the task; the objective or the model has their values.
DEFAULT_OF_TASK = (
    "columns", "arch", "width", "depth", "heads", "image_size", "max_length", "problem_type", "language", "vocab_size",
    "label_smoothing", "batch_size",
)  # fmt: skip


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
    then = recorded_args(folder) if started else {}
    if started:
        _require_same(folder, file, now)
    found = state.newest_intact(folder, say, processes) if resume else None
    keeps = started and (is_past(found, args) or then == now["args"])
    processes.barrier()  # every process has checked before any of them writes
    wrong = None
    if processes.is_main:
        try:
            state.remove_partial(folder)
            if not keeps:  # the next resumed run starts from the arguments that this one changed
                folder.mkdir(parents=True, exist_ok=True)
                state.write_atomic(file, json.dumps({**now, "checksum": _checksum(now)}, indent=1))
        except OSError as error:
            wrong = _cannot_write(folder, error)
    _raise_together(wrong, folder, processes)
    if resume and processes.is_main:
        nothing = f"{folder} has no checkpoint yet: starting at step 0"
        say(nothing if found is None else f"resuming from step {state.step_of(found):,} ({found})")
        if found is not None and not is_past(found, args):
            for name in LR_ARGS:
                if name in then and name != "warmup" and then[name] != now["args"][name]:
                    say(_changed_option(ChangedValue(name, then[name], now["args"][name])))
    return found


def recorded_args(folder: Path | None) -> dict[str, Any]:
    """Return the arguments with which a run was last started or resumed; empty if there is no run."""
    if folder is None or not (folder / RECORD).exists():
        return {}
    return dict(_read_record(folder / RECORD)["args"])


def is_past(checkpoint: Path | None, args: TrainArgs) -> bool:
    """Return whether a resumed run has nothing left to train."""
    return checkpoint is not None and state.step_of(checkpoint) >= args.total_steps


def as_planned(folder: Path, args: TrainArgs) -> TrainArgs:
    """Return the arguments of a resumed run with its previous length and learning rates, and what depends on them."""
    recorded = recorded_args(folder)
    names = {"steps", *derived(1), *LR_ARGS}
    return replace(args, **{name: recorded[name] for name in names if recorded.get(name) is not None})


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
    """Return the options of a resumed run: those it was last trained with, unless new ones are given."""
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
    """Raise an error that describes what a resumed run would change."""
    then = _read_record(file)
    then["args"], now = fixed(then["args"]), now | {"args": fixed(now["args"])}
    names = {"args": "options", "objective": "data or settings", "config": "model settings", "model": "weights"}
    parts = [part for part in names if part in then and part in now]  # not every objective has a fingerprint
    if "objective" in parts and all(then[part] == now[part] for part in parts if part != "args"):
        for name in DEFAULT_OF_TASK:  # an option may be set to its default
            if None in (then["args"].get(name), now["args"].get(name)):
                then["args"].pop(name, None)
                now["args"].pop(name, None)
    for part in parts:
        if (change := difference(then[part], now[part])) is not None:
            default = _batch_size(then) if change.name == "batch_size" else ""
            said = f"{folder} was started with different {names[part]}: {_in_words(part, change, default)}"
            raise ConfigError(said, "resume with the original settings, or start again in another folder")


def _batch_size(record: Mapping[str, Any]) -> str:
    """Return the batch size of a run from its objective, which may use another name for it."""
    found = record.get("objective", {})
    return next((f"{found[name]:g}" for name in BATCH_SIZES if name in found), "")


def _in_words(part: str, change: ChangedValue, default: str) -> str:
    """Describe a change: the option that changed, or what is different about the data."""
    old, new = change.old, change.new
    if part == "args":
        return _changed_option(change, default)
    if part != "objective":
        return f"{change.name} was {old} and is now {new}"
    first, _, rest = re.sub(r"^parts\.\d+\.", "", change.name).partition(".")  # for several sets of recordings
    if first in DATA and rest in ("count", "tokens"):
        unit = "tokens" if "token" in change.name else "rows"
        return f"{DATA[first]} had {old:,} {unit} and now has {new:,}"
    if first in DATA and rest == "contents":
        return f"{DATA[first]} has the same size, but not the same contents"
    if first in DATA and rest == "classes":
        return f"{DATA[first]} has other classes"
    option = "batch_size" if first in BATCH_SIZES else first
    if option == "augment" and rest:
        return f"--augmentation {rest} was {_option(old)} and is now {_option(new)}"
    spelled = flag(option) if option in DEFAULTS else change.name
    return f"{spelled} was {_option(old)} and is now {_option(new)}"


def _changed_option(change: ChangedValue, default: str = "") -> str:
    missing = f"not given (its default is {default})" if default else "not given"
    old, new = (missing if value is None else _option(value) for value in (change.old, change.new))
    return f"{flag(change.name)} was {old} and is now {new}"


def _option(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


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
