from __future__ import annotations

import copy
from typing import Any

import pytest

from glassformer.lab.comparison import summary
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.results import Results


@pytest.fixture
def made(results: Results) -> Results:
    """The same plan with numbers that are known: t = n² for the Transformer and n for the others, both times d."""
    data: dict[str, Any] = copy.deepcopy(results.data)
    for unit in data["units"]:
        result, settings = unit["result"], unit["settings"]
        if (unit["task"], unit["part"]) == ("cost", "layer"):
            n, d = settings["n"], settings["d"]
            result["both"] = {name: d * (n * n / 20 if name == "Transformer" else n) for name in results.architectures}
            result["halves"] = {SQUARE: n * n * d, LINEAR: n * d * d}
        elif (unit["task"], unit["part"]) == ("reach", "recall"):
            far = settings["architecture"] == "Transformer" or settings["distance"] < 4
            result["accuracy"] = 0.9 if far else 0.2
        elif unit["task"] == "data":
            better = settings["architecture"] == "CNN" and settings["size"] == 8
            result["accuracy"] = (0.8 if better else 0.5) + 0.01 * unit["seed"] * better
    return Results(data, results.path)


def test_exponents(made: Results) -> None:
    assert summary.in_n(made, "Transformer").measured.mean == pytest.approx(2)
    assert summary.in_n(made, "RNN").measured.mean == pytest.approx(1)
    assert summary.in_d(made, "LSTM").measured.mean == pytest.approx(1)
    assert summary.speed_up(made, "MLP") > 0
    counted = summary.in_n(made, "Transformer").counted  # 4nd² + 2n²d: between both
    assert 1.1 < counted < 1.9
    assert summary.in_n(made, "MLP").counted == pytest.approx(1)


def test_how_parts_of_one_are_said() -> None:
    told = {0.0: "0", 2e-44: "10⁻⁴⁴", 0.043: "4.3 %", 0.85: "85 %", 2.0: "200 %"}
    assert {value: summary.power(value) for value in told} == told
    assert [summary.points(x) for x in (-0.48, -0.001, 0.01)] == ["−48", "0", "+1"]


def test_crossings(made: Results) -> None:
    halves = summary.crossing(made, 16)  # n²d = nd²
    assert halves is not None
    assert halves.mean == pytest.approx(16)
    assert summary.overtaken(made, "RNN", 16) == pytest.approx(20)  # n²/20 = n
    assert summary._passes([8, 16], [0.2, 0.9]) is None  # not here
    assert summary._passes([8, 16], [1.2, 1.9]) == 8  # everywhere
    assert summary._passes([4, 8, 16], [1.2, 0.5, 2.0]) == pytest.approx(8 * 2**0.5)  # from there on


def test_reach(made: Results) -> None:
    assert summary.reach(made, "Transformer") == 4
    assert summary.reach(made, "GRU") == 2


def test_the_gap_closes(made: Results) -> None:
    assert summary.gap(made, 8).mean == pytest.approx(0.305)
    assert summary.gap(made, 16).mean == pytest.approx(0)
    assert summary.closes(made) == 16
    for unit in made.units:
        if unit["task"] == "data" and unit["settings"]["architecture"] == "CNN":
            unit["result"]["accuracy"] = 0.9 + 0.001 * unit["seed"]
    assert summary.closes(made) is None
