"""What to expect of a run: the committed table of measured runs, and the one most similar to a given run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("measured_runs.json")  # written by benchmarks/training_defaults.py


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run with the default arguments: its data, and the metric of each evaluation with the processor time so far."""

    name: str
    task: str
    kind: str
    rows: int
    classes: int
    from_: str | None
    metric: str
    curve: tuple[tuple[float, float], ...]


@cache
def measured_runs() -> tuple[MeasuredRun, ...]:
    runs = json.loads(FILE.read_text(encoding="utf-8"))["runs"]
    return tuple(MeasuredRun(**(run | {"curve": tuple(map(tuple, run["curve"]))})) for run in runs)


def expectation(kind: str, rows: int, from_: str | None, seconds: float) -> str:
    """Describe what the most similar measured run reached in this many processor seconds; empty if there is none.

    The most similar run has the same kind of data, is fine-tuned or not like this one, and has the closest number of
    rows.
    """
    alike = [run for run in measured_runs() if run.kind == kind and (run.from_ is None) == (from_ is None)]
    if not alike or rows < 1:
        return ""
    run = min(alike, key=lambda one: abs(math.log(one.rows / rows)))
    reached = [point for point in run.curve if point[0] <= seconds] or [run.curve[0]]
    after, value = reached[-1]
    about = f"{run.name} ({run.rows:,} rows, {run.classes} classes{f', from {run.from_}' if run.from_ else ''})"
    metric = f"a validation {run.metric} of {value:.3f}"
    return f"for comparison, {about} reached {metric} after {after:.0f} s of processor time"
