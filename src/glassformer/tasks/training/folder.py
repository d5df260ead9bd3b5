"""A run's folder: what it was started with, and the batch that broke it if one did."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from glassformer.checkpoints.codec import encode
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.tasks.training import state
from glassformer.tasks.training.average import kept
from glassformer.tasks.training.course import Job
from glassformer.tasks.training.lesson import Batch, Described, Lesson
from glassformer.tasks.training.plan import Plan, difference
from glassformer.tasks.training.spread import Spread


def begin(
    folder: Path, plan: Plan, model: nn.Module, lesson: Lesson, resume: bool, spread: Spread
) -> Path | None:
    """The newest state to go on from, if plan, lesson and model are those of the run; None for a new run."""
    now = _now(plan, model, lesson)
    file = folder / "plan.json"
    spread.wait()
    found = found_in(folder, resume)
    if resume and file.exists():
        _require_same(folder, file, now)
    spread.wait()  # every process has looked before one of them writes
    wrong = None
    if spread.first:
        try:
            state.sweep(folder)
            if not (resume and file.exists()):
                folder.mkdir(parents=True, exist_ok=True)
                state.write_whole(file, json.dumps(now, indent=1))
        except OSError as error:
            wrong = _cannot_write(folder, error)
    _all_go_on(wrong, folder, spread)
    return found[-1] if found else None


def _now(plan: Plan, model: nn.Module, lesson: Lesson) -> dict[str, Any]:
    """What `plan.json` keeps. Weights alone do not tell a model: its heads may be other ones of the same form."""
    now: dict[str, Any] = {"plan": plan.as_dict()}
    if isinstance(lesson, Described):
        now["lesson"] = lesson.about()
    config = getattr(model, "config", None)
    if type(model).__module__.startswith("glassformer.models.") and is_dataclass(config):
        now["config"] = encode(config)
    now["model"] = {name: _form(tensor.shape, tensor.dtype) for name, tensor in kept(model).items()}
    read: dict[str, Any] = json.loads(json.dumps(now))  # as it will be read again: tuples are lists
    return read


def found_in(folder: Path, resume: bool) -> list[Path]:
    """The states of the run that is there; an error if there are some and nobody meant to go on from them."""
    found = state.steps(folder)
    if found and not resume:
        fact = f"{folder} has a run that is at step {int(found[-1].name.removeprefix('step-'))}"
        raise ConfigError(fact, "resume it, or choose another folder")
    return found


@contextmanager
def held(folder: Path | None, spread: Spread) -> Iterator[None]:
    """The folder is this run's own until it ends in any way: two runs in one would mix their states.

    A lock of the process, not of the file: forked workers that outlive a killed run do not keep it.
    """
    with ExitStack() as stack:
        wrong = None
        if folder is not None and spread.first:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(folder / "lock", "ab+", buffering=0))  # nothing is left to be written
            except OSError as error:
                wrong = _cannot_write(folder, error)
            else:
                wrong = _taken(folder, file)
        _all_go_on(wrong, folder, spread)
        yield


def _all_go_on(wrong: ConfigError | None, folder: Path | None, spread: Spread) -> None:
    """If something is wrong in the first process every one leaves: none waits for one that has left."""
    if spread.any(wrong is not None):
        raise wrong or ConfigError(f"the first process cannot have {folder}", "see what it said")


def _cannot_write(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{folder} cannot be written ({error.strerror})", "make room, or choose another folder")


def _taken(folder: Path, file: IO[bytes]) -> ConfigError | None:
    """Locks the file, and says in it who has; the error if someone else has."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):  # else it is a disk that has no locks, or is full
            file.seek(0)
            fact = f"{folder} has a run under way ({file.read().decode() or 'of another process'})"
            return ConfigError(fact, "wait for it or end it, or choose another folder")
    return None


def _require_same(folder: Path, file: Path, now: dict[str, Any]) -> None:
    try:
        then = json.loads(file.read_text(encoding="utf-8"))
        then["plan"].keys(), then["model"].keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file} is not the plan of a run", "start anew in another folder") from error
    for part, what in (("plan", "plan"), ("lesson", "lesson"), ("config", "model"), ("model", "model")):
        if part not in then or part not in now:  # an older run does not know, nor does every lesson tell
            continue
        if (other := difference(then[part], now[part])) is not None:
            remedy = f"resume with the {what} of the run, or start anew in another folder"
            raise ConfigError(f"{folder} was started with another {what}: {other}", remedy)


def _form(shape: Sequence[int], dtype: object) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"


def not_finite(
    folder: Path | None, step: int, what: str, value: float, turns: Sequence[tuple[Job, Batch | None]], rank: int
) -> GlassError:
    """The error that ends a run whose loss or gradient is no number, with the rows and the batch that did it kept."""
    fact = f"the {what} of step {step} is {value}"
    had = [(job, batch) for job, batch in turns if batch is not None]
    if folder is None or not had:
        return InputError(fact, "lower the rate, or look at the data of that step")
    tensors = {
        f"{name}.{i}" if len(had) > 1 else name: tensor.detach().cpu().contiguous().clone()
        for i, (_, batch) in enumerate(had)
        for name, tensor in batch.items()
    }
    path = folder / (f"broken-step-{step:08d}" + (f"-{rank}" if rank else "") + ".safetensors")
    about = {"step": str(step), "rows": json.dumps([list(map(int, job.rows)) for job, _ in had]), what: str(value)}
    try:
        save_file(tensors, path, metadata=about | {"seeds": json.dumps([job.seed for job, _ in had])})
    except (OSError, SafetensorError) as error:  # a full disk must not hide what the run died of
        fact = f"{fact}; its batch, rows {about['rows'][:80]}, could not be kept ({error})"
        return InputError(fact, "lower the rate, or look at that batch")
    return InputError(f"{fact}; its batch, with the rows, is in {path}", "lower the rate, or look at that batch")
