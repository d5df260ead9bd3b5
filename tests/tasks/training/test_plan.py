from __future__ import annotations

import json
from dataclasses import replace

import pytest

from glassformer.errors import ConfigError
from glassformer.tasks.training.plan import Optimise, Plan, difference

PLAN = Plan(steps=100, optimise=Optimise(rate=1e-3, warmup=10), measure_every=25, save_every=50)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("rate", 0.0, "a rate of 0.0 learns nothing"),
        ("rate", float("nan"), "a rate of nan learns nothing"),
        ("schedule", "linear", "there is no schedule 'linear': choose cosine or inverse_sqrt or constant"),
        ("warmup", -1, "a warm-up of -1 steps"),
        ("decay", -0.1, "a weight decay of -0.1"),
        ("betas", (0.9, 1.0), "betas of (0.9, 1.0)"),
        ("clip", 0.0, "gradients clipped to 0.0"),
        ("floor", 1.5, "a floor of 1.5"),
    ],
)
def test_mistakes_in_optimising(refused, field, value, said) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, said, lambda: replace(PLAN.optimise, **{field: value}))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("steps", 0, "steps is 0: choose at least 1"),
        ("accumulate", 0, "accumulate is 0"),
        ("measure_every", 0, "measure_every is 0"),
        ("save_every", 0, "save_every is 0"),
        ("patience", 0, "patience is 0"),
        ("log_every", 0, "log_every is 0"),
        ("workers", -1, "-1 workers"),
        ("average", 1.0, "an average with decay 1.0"),
        ("precision", "fp16", "there is no precision 'fp16': choose auto, fp32 or bf16"),
        ("steps", 10, "a warm-up of 10 steps does not fit in 10"),
    ],
)
def test_mistakes_in_a_plan(refused, field, value, said) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, said, lambda: replace(PLAN, **{field: value}))


def test_what_is_due_when() -> None:
    assert [step for step in range(1, 101) if PLAN.measures(step)] == [25, 50, 75, 100]
    assert [step for step in range(1, 101) if PLAN.saves(step)] == [50, 100]
    only_at_the_end = replace(PLAN, measure_every=None, save_every=None)
    assert [step for step in range(1, 101) if only_at_the_end.measures(step) or only_at_the_end.saves(step)] == [100]


def test_it_comes_back_from_json() -> None:
    kept = json.loads(json.dumps(PLAN.as_dict()))
    assert difference(kept, PLAN.as_dict()) is None
    optimise = Optimise(**{**kept["optimise"], "betas": tuple(kept["optimise"]["betas"])})
    assert Plan(**{**kept, "optimise": optimise}) == PLAN


def test_a_difference_is_named_with_both_values() -> None:
    other = replace(PLAN, optimise=replace(PLAN.optimise, rate=0.1))
    assert difference(PLAN.as_dict(), other.as_dict()) == "optimise.rate was 0.001 and is now 0.1"
    assert difference({"a": 1}, {"a": 1, "b": 2}) == "b was not there and is now 2"
    assert difference({"a": 1, "b": 2}, {"a": 1}) == "b was 2 and is now not there"


def test_workers_are_free() -> None:
    assert difference(PLAN.as_dict(), replace(PLAN, workers=4).as_dict()) is None
