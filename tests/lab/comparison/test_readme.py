from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.lab.comparison.findings import findings
from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.readme import table, update
from glassformer.lab.comparison.results import Results, load


def test_each_cell_has_its_number(results: Results) -> None:
    rows = [line for line in table(results).splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ARCHITECTURES)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 6
        for cell in cells[1:]:
            assert any(c.isdigit() for c in cell), row


def test_between_the_markers(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- comparison -->\nwhat stood here\n<!-- /comparison -->\nafter\n")
    update(results, path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- comparison -->\n| |")
    assert text.endswith("<!-- /comparison -->\nafter\n")
    assert "what stood here" not in text
    assert f"[{results.path.name}](" in text
    update(results, path)
    assert path.read_text(encoding="utf-8") == text
    path.write_text("nothing")
    with pytest.raises(InputError, match="has no <!-- comparison -->"):
        update(results, path)


def test_a_part_is_not_enough(results: Results, tmp_path: Path) -> None:
    some = Results(results.data, results.path)
    some.plan = replace(some.plan, tasks=("reach", "data"))
    with pytest.raises(InputError, match="needs bias, streaming, cost too"):
        update(some, tmp_path / "README.md")


def test_both_sections_of_one_file(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    sections = [f"<!-- {name} -->\nwhat stood here\n<!-- /{name} -->" for name in ("findings", "comparison")]
    path.write_text("\n".join(["first", *sections, "last"]))
    update(results, path)
    text = path.read_text(encoding="utf-8")
    assert "what stood here" not in text
    places = [text.index(part) for part in ("Made by `glassformer compare`", "<!-- /findings -->", "| Transformer |")]
    assert places == sorted(places)
    link = text.partition(f"[{results.path.name}](")[2].partition(")")[0]
    assert (path.parent / link).samefile(results.path)


def test_threads_are_told_if_the_machine_was_quiet(results: Results) -> None:
    data = copy.deepcopy(results.data)
    for wanted, told in ((0.9, True), (7.0, False)):
        for unit in data["units"]:
            unit["load"] = wanted
        text = table(Results(data, results.path))
        assert (" × on 2 threads" in text) == told
        assert ("cannot be told" in text) != told


def test_the_pages_say_what_was_measured() -> None:
    """`make compare` writes both; a number that is changed by hand, or a result that was not written in, is found."""
    root = Path(__file__).parents[3]
    results = load(max((root / "results").glob("compare-full-*.json")))
    assert table(results) in (root / "README.md").read_text(encoding="utf-8")
    assert findings(results) in (root / "docs" / "compare.md").read_text(encoding="utf-8")
