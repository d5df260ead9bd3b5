"""Runs a plan unit by unit. Each finished unit is a file, written atomically: a killed run loses at most one unit.

compare-full.part/plan.json      the plan
compare-full.part/units/*.json   the units measured so far
compare-full-2026-11-16.json     all units, when none is left
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

from filelock import FileLock, Timeout

from glassformer.errors import InputError
from glassformer.lab.cache import version
from glassformer.lab.comparison import bias, cost, data, reach, streaming
from glassformer.lab.comparison.plan import SEARCH_SEED, ComparisonPlan, Unit, units
from glassformer.lab.experiment import one_thread
from glassformer.runtime import card
from glassformer.train.state import write_atomic

if TYPE_CHECKING:
    from glassformer.lab.comparison.results import Results


class Task(NamedTuple):
    """A task: `measure(plan, unit, lr)` gets the learning rate chosen by the search; `weight` is in rough seconds."""

    units: Callable[[ComparisonPlan], Iterator[Unit]]
    measure: Callable[[ComparisonPlan, Unit, float], dict[str, Any]]
    weight: Callable[[ComparisonPlan, Unit], float]


TASKS = {
    "reach": Task(reach.units, reach.measure, reach.weight),
    "bias": Task(bias.units, bias.measure, bias.weight),
    "streaming": Task(streaming.units, streaming.measure, streaming.weight),
    "cost": Task(cost.units, cost.measure, cost.weight),
    "data": Task(data.units, data.measure, data.weight),
}
SEARCHES = {  # part that trains networks -> part that found their learning rate
    ("reach", "recall"): "search",
    ("reach", "longer"): "longer search",
    ("bias", "images"): "search",
    ("data", "images"): "search",
}


class RunProgress(NamedTuple):
    """The next unit, and the progress before it in units and in rough seconds."""

    unit: Unit
    done: int
    of: int
    weight_done: float
    weight: float


Show = Callable[[RunProgress], None]


def carry_out(plan: ComparisonPlan, folder: Path, *, command: str = "", show: Show = lambda step: None) -> Path:
    """Measure the remaining units of the plan in `folder`, and return the results file."""
    work = folder / f"compare-{plan.name}.part"
    with _alone(work):
        data.require(plan)
        _freeze(plan, work)
        todo = list(units(plan))
        weights = [TASKS[unit.task].weight(plan, unit) for unit in todo]
        done = 0.0
        for number, (unit, weight) in enumerate(zip(todo, weights, strict=True)):
            if not _file(work, unit).exists():
                show(RunProgress(unit, number, len(todo), done, sum(weights)))
                _write(_file(work, unit), _measured(plan, unit, _rate(work, unit)))
            done += weight
        return _finish(plan, work, folder, command)


def reopen(results: Results, folder: Path, again: Sequence[str]) -> None:
    """Reopen a finished run to measure again the units whose keys start with one of `again`."""
    plan = results.plan
    left = [unit for unit in units(plan) if not unit.key.startswith(tuple(again))]
    for start in again:
        if not any(unit.key.startswith(start) for unit in units(plan)):
            raise InputError(f"no unit of {results.path} starts with {start!r}", "--list shows the units")
    found = {Unit(*(each[name] for name in Unit._fields)).key: each for each in results.units}
    work = folder / f"compare-{plan.name}.part"
    with _alone(work):
        if (work / "plan.json").exists():
            if not all(_file(work, unit).exists() for unit in left if unit.key in found):
                raise InputError(f"{work} is an unfinished run", "finish or remove it, or choose another --output")
            return  # interrupted while measuring again
        (work / "units").mkdir(exist_ok=True)
        for unit in left:
            if unit.key in found:  # a unit that the file lacks is measured
                _write(_file(work, unit), found[unit.key])
        _freeze(plan, work)  # last: without a plan there is nothing to resume


def _rate(work: Path, unit: Unit) -> float:
    """Return the learning rate chosen for this unit's architecture (and dataset); NaN if none is used."""
    search = SEARCHES.get((unit.task, unit.part))
    if search is None:
        return float("nan")
    settings = {name: value for name, value in unit.settings.items() if name in ("dataset", "architecture")}
    found = json.loads(_file(work, Unit(unit.task, search, settings, SEARCH_SEED)).read_text(encoding="utf-8"))
    return float(found["result"]["lr"])


def _measured(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    load = os.getloadavg()[0]
    began, cpu = time.time(), time.process_time()
    with one_thread():
        result = TASKS[unit.task].measure(plan, unit, lr)
    return {
        **unit._asdict(),
        "result": result,
        "began": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(began)),
        "seconds": round(time.time() - began, 3),
        "cpu": round(time.process_time() - cpu, 3),  # processor time of this process
        "load": round(load, 2),  # load of the machine when the unit started
        "version": version(),
    }


def _file(work: Path, unit: Unit) -> Path:
    return work / "units" / f"{unit.key}.json"


def _freeze(plan: ComparisonPlan, work: Path) -> None:
    """Write the plan once; reject a folder that holds a different plan."""
    path = work / "plan.json"
    if path.exists():
        if path.read_text(encoding="utf-8") != plan.dump():
            raise InputError(
                f"{work} contains a run with another plan",
                "finish it with that plan, remove it, or choose another --output",
            )
        return
    (work / "units").mkdir(exist_ok=True)
    write_atomic(path, plan.dump())


def _write(path: Path, data: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


def gathered(plan: ComparisonPlan, work: Path, command: str) -> dict[str, Any]:
    """Collect every unit of the plan and a description of the machine."""
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


def _finish(plan: ComparisonPlan, work: Path, folder: Path, command: str) -> Path:
    result = gathered(plan, work, command)
    path = folder / f"compare-{plan.name}-{result['ended'][:10]}.json"
    write_atomic(path, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(work)
    return path


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Hold a lock on the folder; it is released when the process ends, however it ends."""
    lock = FileLock(work / "lock", timeout=0)
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise InputError(f"{work} is locked by another process", "wait for it, or choose another --output") from None
    except OSError as error:
        raise InputError(f"{work} cannot be written ({error.strerror})", "choose another --output") from None
    try:
        yield
    finally:
        lock.release()
