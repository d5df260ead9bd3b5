from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.lab.comparison.results import Estimate, Results, estimate, load


def test_the_interval_is_students() -> None:
    from scipy import stats

    values = [0.61, 0.7, 0.66, 0.58]
    found = estimate(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.seeds == 4
    assert estimate([2.0]) == Estimate(2.0, None, 1)
    with pytest.raises(InputError, match="0 seeds"):
        estimate([])


def test_how_it_is_told() -> None:
    assert f"{Estimate(0.934, 0.021, 3):.0%}" == "93 ± 2 %"
    assert f"{Estimate(0.934, None, 1):.0%}" == "93%"
    assert f"{Estimate(1.5, 0.25, 3):.2f}" == "1.50 ± 0.25"
    assert f"{Estimate(12.34, 0.56, 3):.3g}" == "12.3 ± 0.6"


def test_selecting(results: Results) -> None:
    assert len(results.select("reach", "recall", architecture="CNN")) == 4  # two distances, two seeds
    assert results.over("reach", "recall", lambda unit: 1.0, architecture="CNN", distance=2).mean == 1
    with pytest.raises(InputError, match="with distance 99"):
        results.select("reach", "recall", distance=99)


@pytest.mark.parametrize(
    ("text", "told"), [("{", "is no JSON"), ('{"plan": 3}', "is no comparison"), ("[1]", "is no comparison")]
)
def test_other_files_are_told(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        load(path)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "y.json")


def test_the_file_has_its_circumstances(results: Results) -> None:
    data = json.loads(results.path.read_text(encoding="utf-8"))
    assert data["card"]["cores"] >= 1
    assert data["command"] == "glassformer compare"
    assert data["cpu"] > 0
    assert {"seconds", "cpu", "load", "began", "version"} <= data["units"][0].keys()
