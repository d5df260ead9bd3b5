"""A plan so small that all of it is measured in a few seconds: two seeds, every task, every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.lab.comparison.plan import BiasPlan, CostPlan, DataPlan, Plan, ReachPlan, StreamingPlan
from glassformer.lab.comparison.results import Results, load
from glassformer.lab.comparison.running import carry_out


def small(name: str = "small", **changes: object) -> Plan:
    parts: dict[str, object] = {
        "cost": CostPlan(
            lengths=(8, 16, 32), widths=(16, 32), rounds=1, threads=(1, 2), thread_length=16, thread_width=16
        ),
        "reach": ReachPlan(
            budget=2_000, gradients=(4, 40), distances=(2, 4), window=8, steps=2, batch=4, rate=1e-2, tests=16
        ),
        "data": DataPlan(
            source="fashion-mnist",
            embedded=True,
            budget=4_000,
            sizes=(8, 16),
            steps=2,
            batch=8,
            rate=3e-3,
            tests=16,
            patch=7,
        ),
        "streaming": StreamingPlan(budget=4_000, after=(10, 30), window=8, rounds=2),
        "bias": BiasPlan(
            budget=4_000,
            images=16,
            steps=2,
            shifts=(1, 4),
            length=8,
            longer=(8, 16),
            sequence_budget=2_000,
            sequence_steps=2,
        ),
    }
    return Plan(name=name, seeds=(0, 1), **{**parts, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def plan() -> Plan:
    return small()


@pytest.fixture(scope="session")
def results(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The small plan carried out, once for all tests."""
    folder: Path = tmp_path_factory.mktemp("comparison")
    return load(carry_out(plan, folder, command="glassformer compare"))
