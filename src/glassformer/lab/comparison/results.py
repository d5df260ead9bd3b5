"""A file of results as numbers over seeds: mean ± t·s/√k, the 95 % interval of Student's t over k seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import InputError
from glassformer.lab.comparison.plan import Plan, Setting, read, units


class Estimate(NamedTuple):
    """The mean over seeds and the half-width of its interval; None if there was one seed."""

    mean: float
    half: float | None
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0.0)

    def __format__(self, spec: str) -> str:
        if self.half is None:
            return format(self.mean, spec)
        if spec.endswith("%"):  # 93 ± 2 %, not 93 % ± 2 %
            digits = spec.removesuffix("%") or ".0"
            return f"{100 * self.mean:{digits}f} ± {100 * self.half:{digits}f} %"
        return f"{self.mean:{spec}} ± {self.half:{_short(spec)}}"


def _short(spec: str) -> str:
    return ".1g" if spec.endswith("g") else spec


def estimate(values: Iterable[float]) -> Estimate:
    from scipy.special import stdtrit

    found = list(values)
    k = len(found)
    if not k:
        raise InputError("0 seeds were measured", "carry the plan out first")
    mean = sum(found) / k
    if k == 1:
        return Estimate(mean, None, 1)
    spread = math.sqrt(sum((x - mean) ** 2 for x in found) / (k - 1))
    return Estimate(mean, float(stdtrit(k - 1, 0.975)) * spread / math.sqrt(k), k)


class Results:
    """What one run measured: nothing else is read to make tables and figures."""

    def __init__(self, data: dict[str, Any], path: Path) -> None:
        self.path, self.data = path, data
        self.plan: Plan = read(data["plan"])
        self.units: list[dict[str, Any]] = data["units"]

    @property
    def architectures(self) -> tuple[str, ...]:
        return self.plan.architectures

    def has(self, task: str) -> bool:
        return task in self.plan.tasks

    def select(self, task: str, part: str, **settings: Setting) -> list[dict[str, Any]]:
        """The results of all seeds with these settings."""
        found = [
            unit["result"]
            for unit in self.units
            if unit["task"] == task and unit["part"] == part and settings.items() <= unit["settings"].items()
        ]
        if not found:
            told = ", ".join(f"{name} {value}" for name, value in settings.items())
            raise InputError(f"{self.path} has no {task} ({part}) with {told}", "carry out a plan that has it")
        return found

    def over(self, task: str, part: str, number: Callable[[dict[str, Any]], float], **settings: Setting) -> Estimate:
        """One number of each seed's result, as a mean with its interval."""
        return estimate(number(result) for result in self.select(task, part, **settings))


def load(path: Path) -> Results:
    """A finished run's file, or the folder of one that is not finished: the seeds that are whole."""
    try:
        data = _unfinished(path) if path.is_dir() else json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give the file that a comparison wrote") from None
    except ValueError:
        raise InputError(f"{path} is no JSON", "give the file that a comparison wrote") from None
    try:
        return Results(data, path)
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path} is no comparison", "give the file that `glassformer compare` wrote") from None


def _unfinished(folder: Path) -> dict[str, Any]:
    from glassformer.lab.comparison.running import gathered

    plan = read(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
    files = {path.stem for path in (folder / "units").glob("*.json")}
    whole = tuple(seed for seed in plan.seeds if all(unit.key in files for unit in units(plan) if unit.seed == seed))
    if not whole:
        raise InputError(f"{folder} has no seed that is whole yet", "carry the plan on")
    return gathered(replace(plan, seeds=whole), folder, "")
