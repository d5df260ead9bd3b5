"""A plan carried out unit by unit. Each finished unit is a file, written beside and renamed: a kill loses at most one.

compare-full.part/plan.json      what was to be measured
compare-full.part/units/*.json   what has been
compare-full-2026-11-16.json     all of it, when nothing is left to do
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from glassformer.errors import InputError
from glassformer.lab.cache import version
from glassformer.lab.comparison import data
from glassformer.lab.comparison.plan import Plan, Unit, units
from glassformer.lab.comparison.tasks import TASKS
from glassformer.lab.running import one_thread
from glassformer.runtime import card

if TYPE_CHECKING:
    from glassformer.lab.comparison.results import Results


class Step(NamedTuple):
    """What comes next, and how much of all was done before it: units, and roughly seconds."""

    unit: Unit
    done: int
    of: int
    weight_done: float
    weight: float


Show = Callable[[Step], None]


def carry_out(plan: Plan, folder: Path, *, command: str = "", show: Show = lambda step: None) -> Path:
    """Measures what is left of the plan in `folder`, and gives the file of its results."""
    work = folder / f"compare-{plan.name}.part"
    with _alone(work):
        data.require(plan)
        _freeze(plan, work)
        todo = list(units(plan))
        weights = [TASKS[unit.task].weight(plan, unit) for unit in todo]
        done = 0.0
        for number, (unit, weight) in enumerate(zip(todo, weights, strict=True)):
            if not _file(work, unit).exists():
                show(Step(unit, number, len(todo), done, sum(weights)))
                _write(_file(work, unit), _measured(plan, unit))
            done += weight
        return _finish(plan, work, folder, command)


def reopen(results: Results, folder: Path, again: Sequence[str]) -> None:
    """Puts a finished run back as one that has to measure again what begins like one of `again`, and nothing else."""
    plan = results.plan
    left = [unit for unit in units(plan) if not unit.key.startswith(tuple(again))]
    for start in again:
        if not any(unit.key.startswith(start) for unit in units(plan)):
            raise InputError(f"no unit of {results.path} begins with {start!r}", "choose from what --list shows")
    work = folder / f"compare-{plan.name}.part"
    with _alone(work):
        if (work / "plan.json").exists():
            if not all(_file(work, unit).exists() for unit in left):
                raise InputError(f"{work} is a run that is not finished", "finish or remove it, or use --out")
            return  # stopped while it measured again
        found = {Unit(*(each[name] for name in Unit._fields)).key: each for each in results.units}
        (work / "units").mkdir(exist_ok=True)
        for unit in left:
            _write(_file(work, unit), found[unit.key])
        _freeze(plan, work)  # last: without it there is nothing to go on with


def _measured(plan: Plan, unit: Unit) -> dict[str, Any]:
    load = os.getloadavg()[0]
    began, cpu = time.time(), time.process_time()
    with one_thread():
        result = TASKS[unit.task].measure(plan, unit)
    return {
        **unit._asdict(),
        "result": result,
        "began": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(began)),
        "seconds": round(time.time() - began, 3),
        "cpu": round(time.process_time() - cpu, 3),  # of this process: what it takes on a core of its own
        "load": round(load, 2),  # processes that wanted a core when it began, others' too
        "version": version(),
    }


def _file(work: Path, unit: Unit) -> Path:
    return work / "units" / f"{unit.key}.json"


def _freeze(plan: Plan, work: Path) -> None:
    """The plan is written once; a folder of another plan is not touched."""
    path = work / "plan.json"
    if path.exists():
        if path.read_text(encoding="utf-8") != plan.dump():
            raise InputError(f"{work} was begun with another plan", "finish it with that one, remove it, or use --out")
        return
    (work / "units").mkdir(exist_ok=True)
    _replace(path, plan.dump())


def _write(path: Path, data: dict[str, Any]) -> None:
    _replace(path, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


def _replace(path: Path, text: str) -> None:
    """The whole file or none of it, even if the machine stops."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def gathered(plan: Plan, work: Path, command: str) -> dict[str, Any]:
    """Every unit of the plan, with the machine's card."""
    found = [json.loads(_file(work, unit).read_text(encoding="utf-8")) for unit in units(plan)]
    return {
        "what": "comparison of architectures",
        "plan": json.loads(plan.dump()),
        "command": command,
        "card": card(),
        "began": min(each["began"] for each in found),
        "ended": max(each["began"] for each in found),
        "seconds": round(sum(each["seconds"] for each in found), 1),
        "cpu": round(sum(each["cpu"] for each in found), 1),
        "units": found,
    }


def _finish(plan: Plan, work: Path, folder: Path, command: str) -> Path:
    result = gathered(plan, work, command)
    path = folder / f"compare-{plan.name}-{result['ended'][:10]}.json"
    _replace(path, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(work)
    return path


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however it ends."""
    import fcntl

    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / "lock").open("w")
    except OSError as error:
        raise InputError(f"{work} cannot be written ({error.strerror})", "choose another place with --out") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{work} is being worked on by another process", "wait for it, or use --out") from None
        yield
