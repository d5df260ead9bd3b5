from __future__ import annotations

from glassformer.lab.comparison import plan
from glassformer.lab.comparison.tasks import TASKS


def test_every_task_of_a_plan_is_there() -> None:
    assert set(TASKS) == set(plan.TASKS)
