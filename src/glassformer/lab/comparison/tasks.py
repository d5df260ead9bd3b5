"""The tasks of a comparison: how each is divided into units, and how a unit is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from glassformer.lab.comparison import bias, cost, data, reach, streaming
from glassformer.lab.comparison.plan import ComparisonPlan, Unit


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


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    """Yield every unit of the plan, task by task, so that a run stopped early has complete tasks."""
    for task in plan.tasks:
        yield from TASKS[task].units(plan)
