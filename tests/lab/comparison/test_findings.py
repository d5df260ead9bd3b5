from __future__ import annotations

import copy

import pytest

from glassformer.lab.comparison.findings import findings
from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.results import Results


def test_every_sentence_has_its_numbers(results: Results) -> None:
    first, _, *rest = findings(results).splitlines()
    assert first.startswith("Made by `glassformer compare`: 2 seeds")
    assert len(rest) >= 8
    for line in rest:
        assert line.startswith("- ")
        assert line.endswith(".")
        assert any(c.isdigit() for c in line) or "cannot be told" in line
    recalled = next(line for line in rest if "is recalled" in line)
    assert all(name in recalled for name in ARCHITECTURES)


@pytest.mark.parametrize(
    ("few", "many", "told"),
    [
        (0.3, 0.1, "the gap narrows, and does not close here"),
        (0.3, 0.0, "the gap narrows, and is closed, within its interval, from 16 images on"),
        (0.1, 0.3, "the gap widens, and does not close here"),
        (0.1, 0.1, "does not change by more than chance"),
    ],
)
def test_the_gap(results: Results, few: float, many: float, told: str) -> None:
    data = copy.deepcopy(results.data)
    for unit in data["units"]:
        if unit["task"] == "data":
            better = unit["settings"]["architecture"] == "CNN"
            luck = 1e-3 * unit["seed"] * better * (unit["settings"]["size"] == 8)
            unit["result"]["accuracy"] = 0.5 + better * (few if unit["settings"]["size"] == 8 else many) + luck
    assert told in findings(Results(data, results.path))
