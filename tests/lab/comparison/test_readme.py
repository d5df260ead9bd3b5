from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.readme import best_use, disciplines, table, update
from glassformer.lab.comparison.results import Results


def test_each_cell_has_its_number(results: Results) -> None:
    rows = [line for line in table(results).splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ARCHITECTURES)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 6
        for cell in cells[1:]:
            assert any(c.isdigit() for c in cell), row


def test_who_is_first_is_told_without_a_place(results: Results) -> None:
    for discipline in disciplines(results):
        assert discipline.value(results, "Transformer") is not None
    far = next(each for each in disciplines(results) if each.name == "gradient")
    assert far.value(results, "MLP") is None  # 40 tokens back is outside its window: nothing arrives
    told = {name: best_use(results, name) for name in ARCHITECTURES}
    assert any(" of 6" not in each for each in told.values())  # somebody is the best at something


def test_between_the_markers(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- comparison -->\nwhat stood here\n<!-- /comparison -->\nafter\n")
    update(results, path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- comparison -->\n| |")
    assert text.endswith("<!-- /comparison -->\nafter\n")
    assert "what stood here" not in text
    update(results, path)
    assert path.read_text(encoding="utf-8") == text
    path.write_text("nothing")
    with pytest.raises(InputError, match="has no <!-- comparison -->"):
        update(results, path)


def test_a_part_is_not_enough(results: Results) -> None:
    some = Results(results.data, results.path)
    some.plan = replace(some.plan, tasks=("reach", "data"))
    with pytest.raises(InputError, match="has no cost, streaming, bias"):
        table(some)
