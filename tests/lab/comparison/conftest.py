from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.lab.comparison.plan import BiasPlan, ComparisonPlan, CostPlan, DataPlan, ReachPlan, StreamingPlan
from glassformer.lab.comparison.results import Results, load_results
from glassformer.lab.comparison.runner import carry_out


def small(name: str = "small", **changes: object) -> ComparisonPlan:
    parts: dict[str, object] = {
        "cost": CostPlan(
            lengths=(8, 16, 32), widths=(16, 32), rounds=1, threads=(1, 2), thread_length=16, thread_width=16
        ),
        "reach": ReachPlan(
            budget=2_000,
            gradients=(4, 40),
            distances=(2, 4),
            rates=(1e-3, 1e-2),
            search=(2,),
            window=8,
            steps=2,
            batch_size=4,
            tests=16,
            length=8,
            longer=(8, 16),
            longer_steps=2,
        ),
        "data": DataPlan(
            datasets=("fashion-mnist",),
            embedded=True,
            budget=4_000,
            sizes=(8, 16),
            rates=(1e-3, 1e-2),
            search=(8,),
            size_steps=(2, 3),
            batch_size=8,
            validation=16,
            tests=16,
            patches=4,
        ),
        "streaming": StreamingPlan(budget=4_000, after=(10, 30), window=8, rounds=2),
        "bias": BiasPlan(
            dataset="fashion-mnist",
            embedded=True,
            budget=4_000,
            images=16,
            rates=(1e-2,),
            steps=2,
            batch_size=8,
            validation=16,
            tests=16,
            patches=4,
            shifts=(1, 4),
        ),
    }
    return ComparisonPlan(name=name, seeds=(0, 1), **{**parts, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def plan() -> ComparisonPlan:
    return small()


@pytest.fixture(scope="session")
def results(plan: ComparisonPlan, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The small plan carried out, once for all tests."""
    folder: Path = tmp_path_factory.mktemp("comparison")
    return load_results(carry_out(plan, folder, command="glassformer compare"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Carrying out the small plan takes ten seconds: tests of its results are slow tests."""
    for item in items:
        if "results" in getattr(item, "fixturenames", ()) and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
