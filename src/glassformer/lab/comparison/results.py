"""The results of a comparison: means over seeds ± t·s/√k (95 %, Student's t), derived only from its file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import InputError
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.plan import ComparisonPlan, Setting, Unit, read_plan
from glassformer.lab.comparison.tasks import units
from glassformer.lens.perturb import fitted_exponent
from glassformer.runtime import card

LEARNED = 0.9  # test accuracy from which a network counts as having learned to recall; chance is 0.125


class Estimate(NamedTuple):
    """The mean over seeds and the half-width of its 95 % interval (None for a single seed)."""

    mean: float
    half: float | None
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0.0)

    def times(self, factor: float) -> Estimate:
        return Estimate(factor * self.mean, None if self.half is None else factor * self.half, self.seeds)

    def __format__(self, spec: str) -> str:
        if self.half is None:
            return format(self.mean, spec)
        if spec.endswith("%"):  # 93 ± 2 %, not 93 % ± 2 %
            digits = spec.removesuffix("%") or ".0"
            return f"{100 * self.mean:{digits}f} ± {100 * self.half:{digits}f} %"
        return f"{self.mean:{spec}} ± {self.half:{_short(spec)}}"


def _short(spec: str) -> str:
    return ".1g" if spec.endswith("g") else spec.lstrip("+")


def estimate(values: Iterable[float]) -> Estimate:
    from scipy.special import stdtrit

    found = list(values)
    k = len(found)
    if not k:
        raise InputError("the results have no seeds to average", "run the plan first")
    mean = sum(found) / k
    if k == 1:
        return Estimate(mean, None, 1)
    spread = math.sqrt(sum((x - mean) ** 2 for x in found) / (k - 1))
    return Estimate(mean, float(stdtrit(k - 1, 0.975)) * spread / math.sqrt(k), k)


class Results:
    """The measurements of one run. Tables and figures read nothing else."""

    def __init__(self, data: dict[str, Any], path: Path) -> None:
        self.path, self.data = path, data
        self.plan: ComparisonPlan = read_plan(data["plan"])
        self.units: list[dict[str, Any]] = data["units"]

    @property
    def architectures(self) -> tuple[str, ...]:
        return self.plan.architectures

    @property
    def commands(self) -> list[str]:
        """Return the commands of the runs from which measurements were reused, and that of this one."""
        return [run["command"] for run in (*self.data.get("sources", []), self.data) if run["command"]]

    def has(self, task: str) -> bool:
        return task in self.plan.tasks

    def select(self, task: str, part: str, **settings: Setting) -> list[dict[str, Any]]:
        """Return the results of all seeds with these settings."""
        found = [
            unit["result"]
            for unit in self.units
            if unit["task"] == task and unit["part"] == part and settings.items() <= unit["settings"].items()
        ]
        if not found:
            named = ", ".join(f"{name}={value}" for name, value in settings.items())
            raise InputError(f"{self.path} has no {task} ({part}) with {named}", "run a plan that has it")
        return found

    def over(self, task: str, part: str, number: Callable[[dict[str, Any]], float], **settings: Setting) -> Estimate:
        """Return the mean and interval over seeds of one number of each result."""
        return estimate(number(result) for result in self.select(task, part, **settings))


def latest() -> Path | None:
    """Return the newest results file that comes with Glassformer, in a checkout or an installation, if there is one."""
    folders = (Path(__file__).parents[4] / "results", Path(sys.prefix) / "share" / "glassformer" / "results")
    found = [path for folder in folders for path in folder.glob("compare-full-*.json")]
    return max(found, key=lambda path: path.name, default=None)


def load_results(path: Path) -> Results:
    """Load the file of a finished run, or the complete tasks from the folder of an unfinished one."""
    try:
        data = _unfinished(path) if path.is_dir() else json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror})", "give a file written by glassformer compare"
        ) from None
    except ValueError:
        raise InputError(f"{path} is not JSON", "give a file written by glassformer compare") from None
    try:
        return Results(data, path)
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path} is not a comparison", "give a file written by this glassformer compare") from None


def _unfinished(folder: Path) -> dict[str, Any]:
    plan = read_plan(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
    files = {path.stem for path in (folder / "units").glob("*.json")}
    complete = tuple(task for task in plan.tasks if all(u.key in files for u in units(replace(plan, tasks=(task,)))))
    if not complete:
        raise InputError(f"{folder} has no complete task yet", "wait until the run has completed one")
    return gathered(replace(plan, tasks=complete), folder, "")


def unit_file(work: Path, unit: Unit) -> Path:
    """Return the file of a unit in the folder of an unfinished run."""
    return work / "units" / f"{unit.key}.json"


def gathered(plan: ComparisonPlan, work: Path, command: str) -> dict[str, Any]:
    """Collect every unit of the plan and a description of the machine."""
    found = [json.loads(unit_file(work, unit).read_text(encoding="utf-8")) for unit in units(plan)]
    return {
        "what": "comparison of architectures",
        "plan": json.loads(plan.dump()),
        "command": command,
        "card": card(),
        "began": min(each["began"] for each in found),
        "ended": max(each["began"] for each in found),
        **_sources(work),
        "seconds": round(sum(each["seconds"] for each in found), 1),
        "cpu": round(sum(each["cpu"] for each in found), 1),
        "units": found,
    }


def _sources(work: Path) -> dict[str, Any]:
    """Return the runs from which measurements were reused, if any."""
    path = work / "sources.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


# Cost


class Exponent(NamedTuple):
    """The exponent p of t ≈ c·n^p as measured, and that of the multiplications counted over the same sizes."""

    measured: Estimate
    counted: float


def times(results: Results, kind: str, architecture: str, *, n: int, d: int) -> list[float]:
    return [unit[kind][architecture] for unit in results.select("cost", "layer", n=n, d=d)]


def exponent_in_n(results: Results, architecture: str) -> Exponent:
    """Fit the exponent over `upper` lengths at the smallest width, where any n² term shows."""
    lengths, d = results.plan.cost.lengths, results.plan.cost.widths[0]
    sizes = upper(lengths)
    return _exponent(results, architecture, sizes, [(n, d) for n in sizes])


def exponent_in_d(results: Results, architecture: str) -> Exponent:
    """Fit the exponent over `upper` widths at the largest length, where any d² term shows."""
    widths, n = results.plan.cost.widths, results.plan.cost.lengths[-1]
    sizes = upper(widths)
    return _exponent(results, architecture, sizes, [(n, d) for d in sizes])


def upper(sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes to which an exponent is fitted: the upper half, or all if there are three or fewer."""
    return sizes[len(sizes) // 2 :] if len(sizes) > 3 else sizes


def _exponent(results: Results, architecture: str, sizes: Sequence[int], places: Sequence[tuple[int, int]]) -> Exponent:
    found = [results.select("cost", "layer", n=n, d=d) for n, d in places]
    seeds = zip(*([unit["both"][architecture] for unit in each] for each in found), strict=True)
    counted = [each[0]["multiplications"][architecture] for each in found]
    return Exponent(estimate(fitted_exponent(sizes, each) for each in seeds), fitted_exponent(sizes, counted))


def crossing(results: Results, d: int) -> Estimate | None:
    """Return the n at which attention's n² part takes as long as its projections, forward; by formula n = 2d.

    Interpolated on a logarithmic scale; None if it is not within the lengths for every seed.
    """
    lengths = results.plan.cost.lengths
    found = [results.select("cost", "layer", n=n, d=d) for n in lengths]
    ratios = [[unit["halves"][SQUARE] / unit["halves"][LINEAR] for unit in each] for each in found]
    places = [crosses_one(lengths, seed) for seed in zip(*ratios, strict=True)]
    known = [place for place in places if place is not None]
    return estimate(known) if len(known) == len(places) else None


def overtaken(results: Results, other: str, d: int) -> float | None:
    """Return the n above which self-attention is slower than another layer of equal size; None if it never is."""
    lengths = results.plan.cost.lengths
    ratios = []
    for n in lengths:
        own, its = (min(times(results, "both", name, n=n, d=d)) for name in ("Transformer", other))
        ratios.append(own / its)
    return crosses_one(lengths, ratios)


def crosses_one(x: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Return where the ratio rises above 1 for good: the first x if it always is, None if the last ratio is below."""
    if ratios[-1] < 1:
        return None
    below = [k for k, ratio in enumerate(ratios) if ratio < 1]
    if not below:
        return float(x[0])
    k = below[-1]
    share = math.log(1 / ratios[k]) / math.log(ratios[k + 1] / ratios[k])
    return math.exp(math.log(x[k]) + share * math.log(x[k + 1] / x[k]))


def speed_up(results: Results, architecture: str) -> float:
    """t(1 thread) / t(most threads), each the best over all seeds."""
    found = [unit["both"][architecture] for unit in results.select("cost", "threads")]
    return float(min(each[0] for each in found) / min(each[-1] for each in found))


def load_when_threaded(results: Results) -> float:
    """Return the lowest load of the machine while threads were timed."""
    return min(float(unit["load"]) for unit in results.units if unit["part"] == "threads")


def quiet(results: Results) -> bool:
    """Return whether other processes used less than half a core at least once while threads were timed."""
    return load_when_threaded(results) < 1.5


def rate(results: Results, architecture: str) -> Estimate:
    """Return 10⁹ multiplications per second, forward, at the middle length and the largest width."""
    lengths, widths = results.plan.cost.lengths, results.plan.cost.widths
    n, d = lengths[len(lengths) // 2], widths[-1]
    count = lambda unit: unit["multiplications"][architecture] / unit["forward"][architecture] / 1e9
    return results.over("cost", "layer", count, n=n, d=d)


# Reach


def gradient(results: Results, architecture: str, distance: int) -> Estimate:
    value = lambda unit: unit["gradient"]
    return results.over("reach", "gradient", value, architecture=architecture, distance=distance)


def recalled(results: Results, architecture: str, distance: int) -> list[float]:
    """Return the test accuracy of each seed."""
    found = results.select("reach", "recall", architecture=architecture, distance=distance)
    return [unit["accuracy"] for unit in found]


def learned(results: Results, architecture: str, distance: int) -> int:
    """Return how many seeds learned to recall over this distance."""
    return sum(accuracy >= LEARNED for accuracy in recalled(results, architecture, distance))


def reach(results: Results, architecture: str) -> int:
    """Return the longest distance up to which all seeds learned at every distance; 0 if there is none."""
    longest = 0
    for distance in results.plan.reach.distances:
        if learned(results, architecture, distance) < len(results.plan.seeds):
            break
        longest = distance
    return longest


def longer(results: Results, name: str, n: int) -> Estimate:
    """Return the accuracy on sequences of n tokens after training on short ones."""
    return results.over("reach", "longer", lambda unit: unit["accuracy"][str(n)], architecture=name)


# Images


def accuracy(results: Results, dataset: str, architecture: str, size: int) -> Estimate:
    value = lambda unit: unit["accuracy"]
    return results.over("data", "images", value, dataset=dataset, architecture=architecture, size=size)


def seeds_at(results: Results, size: int) -> int:
    """Return how many seeds were measured with so many training images."""
    return len(results.plan.data.seeds(results.plan.seeds, size))


def judged_sizes(results: Results) -> list[int]:
    """Return the training set sizes that were measured with every seed; verdicts about the gap rest on these alone."""
    return [size for size in results.plan.data.sizes if seeds_at(results, size) == len(results.plan.seeds)]


def gap(results: Results, dataset: str, size: int) -> Estimate:
    """Accuracy of the CNN minus that of the Transformer, seed by seed."""
    both = (
        results.select("data", "images", dataset=dataset, architecture=name, size=size)
        for name in ("CNN", "Transformer")
    )
    return estimate(cnn["accuracy"] - vit["accuracy"] for cnn, vit in zip(*both, strict=True))


def narrowing(results: Results, dataset: str) -> Estimate:
    """Return by how much the gap shrinks from the fewest to the most of the judged sizes, seed by seed."""
    sizes = judged_sizes(results)
    ends = [
        [unit["accuracy"] for unit in results.select("data", "images", dataset=dataset, architecture=name, size=size)]
        for size in (sizes[0], sizes[-1])
        for name in ("CNN", "Transformer")
    ]
    return estimate((a - b) - (c - d) for a, b, c, d in zip(*ends, strict=True))


def closes(results: Results, dataset: str) -> int | None:
    """Return the smallest judged size from which the gap's interval includes 0 or is below it; None without one."""
    place = None
    for size in reversed(judged_sizes(results)):
        if gap(results, dataset, size).low > 0:
            break
        place = size
    return place


def on_shifted(results: Results, architecture: str, trained: str, by: int) -> Estimate:
    """Return the accuracy on images shifted by `by` pixels."""
    value = lambda unit: unit["accuracy"][str(by)]
    return results.over("bias", "images", value, architecture=architecture, trained=trained)


def shift_loss(results: Results, architecture: str, trained: str, by: int) -> Estimate:
    """Accuracy on shifted minus accuracy on centred images, seed by seed."""
    value = lambda unit: unit["accuracy"][str(by)] - unit["accuracy"]["0"]
    return results.over("bias", "images", value, architecture=architecture, trained=trained)


# Streaming


def token_time(results: Results, name: str, after: int) -> Estimate:
    return results.over("streaming", "token", lambda unit: unit["seconds"][name], after=after)


def kept(results: Results, name: str, after: int) -> int:
    return int(results.select("streaming", "token", after=after)[0]["kept"][name])


def as_power(value: float) -> str:
    """Format a ratio for reading: 4 %, 10⁻⁴⁴, 0."""
    if not value:
        return "0"
    if value >= 1e-3:
        return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:,.0f} %"
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
