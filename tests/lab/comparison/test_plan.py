from __future__ import annotations

import json
from dataclasses import replace

from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.plan import Plan, full, quick, read, units
from glassformer.lab.comparison.tasks import TASKS


def test_a_plan_is_read_as_it_was_written() -> None:
    for plan in (quick(), full()):
        assert read(json.loads(plan.dump())) == plan


def test_units_have_one_name_each() -> None:
    for plan in (quick(), full()):
        keys = [unit.key for unit in units(plan)]
        assert len(set(keys)) == len(keys)
        assert all("/" not in key and len(key) < 200 for key in keys)


def test_the_full_plan_is_what_is_promised() -> None:
    plan = full()
    assert plan.architectures == ARCHITECTURES
    assert (plan.cost.lengths[0], plan.cost.lengths[-1]) == (64, 4096)
    assert (plan.cost.widths[0], plan.cost.widths[-1]) == (64, 512)
    assert plan.data.sizes[-1] >= 100 * plan.data.sizes[0]  # two decades
    assert plan.data.steps * plan.data.batch >= plan.data.sizes[-1]  # every image is seen
    assert plan.streaming.after == (100, 1000, 10_000)
    assert len(plan.seeds) >= 3


def test_a_part_of_a_plan(plan: Plan) -> None:
    some = replace(plan, tasks=("reach",), architectures=("CNN", "MLP"))
    found = list(units(some))
    assert {unit.task for unit in found} == {"reach"}
    assert {unit.settings["architecture"] for unit in found} == {"CNN", "MLP"}
    assert {unit.seed for unit in found} == {0, 1}


def test_memory_is_measured_once(plan: Plan) -> None:
    assert {unit.seed for unit in units(plan) if unit.part == "memory"} == {0}


def test_every_unit_has_a_weight() -> None:
    for plan in (quick(), full()):
        assert all(0 < TASKS[unit.task].weight(plan, unit) < 600 for unit in units(plan))
