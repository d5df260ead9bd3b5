from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.errors import InputError
from glassformer.lab.comparison.data import pictures, require
from glassformer.lab.comparison.plan import Plan, quick
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.running import carry_out


def test_a_larger_set_holds_the_smaller_one(plan: Plan) -> None:
    (few, y), held = pictures(plan.data, 8, 16, 0)
    (more, z), same = pictures(plan.data, 16, 16, 0)
    assert torch.equal(more[:8], few)
    assert torch.equal(z[:8], y)
    assert torch.equal(held[0], same[0])
    assert few.shape == (8, 1, 28, 28)
    (other, _), test = pictures(plan.data, 8, 16, 1)
    assert not torch.equal(other, few)
    assert torch.equal(test[0], held[0])  # the same test for every seed


def test_the_quick_plan_fits_what_comes_along() -> None:
    data = quick().data
    (X, y), (held, _) = pictures(data, data.sizes[-1], data.tests, 0)
    assert len(X) == data.sizes[-1]
    assert sorted(y.unique().tolist()) == list(range(10))
    assert len(held) >= 500


def test_too_many_are_asked_for(plan: Plan) -> None:
    with pytest.raises(InputError, match="glassformer data fetch fashion-mnist"):
        pictures(replace(plan.data, embedded=True), 10**6, 16, 0)


def test_too_small_a_set_is_said_before_anything_is_measured(plan: Plan, tmp_path: Path) -> None:
    large = replace(plan, data=replace(plan.data, sizes=(8, 10**6)))
    with pytest.raises(InputError, match="glassformer data fetch fashion-mnist"):
        carry_out(large, tmp_path)
    assert not list(tmp_path.rglob("*.json"))
    require(replace(large, tasks=("cost",)))  # needs none


def test_what_was_measured(results: Results) -> None:
    for unit in results.select("data", "images", size=16):
        assert 0 <= unit["accuracy"] <= 1
        assert unit["tested"] == 16
