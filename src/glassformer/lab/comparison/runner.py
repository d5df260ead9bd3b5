"""Runs a plan unit by unit. Each finished unit is a file, written atomically: a killed run loses at most one unit.

compare-full.part/plan.json the plan compare-full.part/units/*.json the units measured so far
compare-full-2026-11-16.json all units, once none is left
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from glassformer.errors import InputError
from glassformer.lab.cache import version
from glassformer.lab.comparison.data import require_datasets
from glassformer.lab.comparison.plan import SEARCH_SEED, ComparisonPlan, Unit, relevant_settings
from glassformer.lab.comparison.results import Results, gathered, load_results, unit_file
from glassformer.lab.comparison.tasks import TASKS, units
from glassformer.runtime import card
from glassformer.runtime.measure import one_thread
from glassformer.train.state import write_atomic

SEARCHES = {  # part that trains networks -> part that found their learning rate
    ("reach", "recall"): "search",
    ("reach", "longer"): "longer search",
    ("bias", "images"): "search",
    ("data", "images"): "search",
}


class RunProgress(NamedTuple):
    """The next unit, and the progress so far in units and in rough seconds."""

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
        todo = list(units(plan))
        if not all(unit_file(work, unit).exists() for unit in todo):
            require_datasets(plan)
        _freeze(plan, work)
        weights = [TASKS[unit.task].weight(plan, unit) for unit in todo]
        done = 0.0
        for number, (unit, weight) in enumerate(zip(todo, weights, strict=True)):
            if not _done(work, unit):
                show(RunProgress(unit, number, len(todo), done, sum(weights)))
                _write(unit_file(work, unit), _measured(plan, unit, _rate(work, unit)))
            done += weight
        return _finish(plan, work, folder, command)


def reuse(plan: ComparisonPlan, files: Sequence[Path], folder: Path, *, again: Sequence[str] = ()) -> None:
    """Start a run in `folder` with those measurements of results files that match the plan.

    A unit is taken from the first file that has it, if the settings on which it depends, the architectures and the
    processor are the same; units whose keys start with one of `again` are not taken. `carry_out` measures the rest,
    and every network that was trained with a learning rate other than the one that its search now chooses.
    """
    todo = {unit.key for unit in units(plan)}
    for start in again:
        if not any(key.startswith(start) for key in todo):
            raise InputError(f"no unit of the plan starts with {start!r}", "--list shows the units")
    kept = {key for key in todo if not key.startswith(tuple(again))}
    taken: dict[str, dict[str, Any]] = {}
    sources = []
    for path in files:
        made = load_results(path)
        _require_same_machine(made)
        found = _matching(plan, made, kept - taken.keys())
        if not found:
            raise InputError(f"{path} has no measurement of this plan that could be reused", "leave it out")
        taken |= found
        own = {name: made.data[name] for name in ("command", "card", "began", "ended")}
        sources += [run for run in (*made.data.get("sources", []), own) if run not in sources]
    work = folder / f"compare-{plan.name}.part"
    with _alone(work):
        if (work / "plan.json").exists():
            if not all((work / "units" / f"{key}.json").exists() for key in taken):
                raise InputError(f"{work} is an unfinished run", "finish or remove it, or choose another --output")
            return  # interrupted while measuring the rest
        (work / "units").mkdir(exist_ok=True)
        for key, each in taken.items():
            _write(work / "units" / f"{key}.json", each)
        _write(work / "sources.json", {"sources": sources})
        _freeze(plan, work)  # last: without a plan there is nothing to resume


def _require_same_machine(made: Results) -> None:
    recorded, current = made.data["card"]["processor"], card()["processor"]
    if recorded != current:
        fact = f"{made.path} was measured on {recorded}, and this machine has {current}"
        raise InputError(fact, "measure everything on one machine: the times could not be compared")


def _matching(plan: ComparisonPlan, made: Results, keys: Set[str]) -> dict[str, dict[str, Any]]:
    """Return by key those measurements that the plan would make with the same settings."""
    if made.plan.architectures != plan.architectures:
        return {}
    found = {}
    for each in made.units:
        unit = Unit(*(each[name] for name in Unit._fields))
        if unit.key in keys and relevant_settings(made.plan, unit) == relevant_settings(plan, unit):
            found[unit.key] = each
    return found


def _done(work: Path, unit: Unit) -> bool:
    """Return whether the unit is measured, with the learning rate that its search chose if it has one."""
    if not unit_file(work, unit).exists():
        return False
    if (unit.task, unit.part) not in SEARCHES:
        return True
    found = json.loads(unit_file(work, unit).read_text(encoding="utf-8"))
    return bool(found["result"]["lr"] == _rate(work, unit))


def _rate(work: Path, unit: Unit) -> float:
    """Return the learning rate chosen for this unit's architecture (and dataset); NaN if none is used."""
    search = SEARCHES.get((unit.task, unit.part))
    if search is None:
        return float("nan")
    settings = {name: value for name, value in unit.settings.items() if name in ("dataset", "architecture")}
    found = json.loads(unit_file(work, Unit(unit.task, search, settings, SEARCH_SEED)).read_text(encoding="utf-8"))
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
