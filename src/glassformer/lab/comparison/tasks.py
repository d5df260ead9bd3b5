"""The five tasks of a comparison: what each measures, how, and roughly how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from glassformer.lab.comparison import bias, cost, data, reach, streaming
from glassformer.lab.comparison.plan import Plan, Setting, Unit


class Task(NamedTuple):
    """`weight` is in seconds, roughly: for the time left alone."""

    units: Callable[[Plan, int], Iterator[tuple[str, Mapping[str, Setting]]]]
    measure: Callable[[Plan, Unit], dict[str, Any]]
    weight: Callable[[Plan, Unit], float]


TASKS = {
    "cost": Task(cost.units, cost.measure, cost.weight),
    "reach": Task(reach.units, reach.measure, reach.weight),
    "data": Task(data.units, data.measure, data.weight),
    "streaming": Task(streaming.units, streaming.measure, streaming.weight),
    "bias": Task(bias.units, bias.measure, bias.weight),
}
