"""Estimates, tables, findings, figures and pages, all made from a file of results."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.figures import to_bytes
from glassformer.lab.comparison import results as r
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.figures import figures
from glassformer.lab.comparison.networks import ARCHITECTURES
from glassformer.lab.comparison.page import comparison_page, setup
from glassformer.lab.comparison.published import FIGURE_3, FIGURE_4
from glassformer.lab.comparison.results import Estimate, Results, estimate, latest, load_results
from glassformer.lab.comparison.tables import findings, section, summary_table, tables, update


def test_intervals_are_those_of_students_t() -> None:
    from scipy import stats

    values = [0.61, 0.7, 0.66, 0.58]
    found = estimate(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.seeds == 4
    assert estimate([2.0]) == Estimate(2.0, None, 1)
    with pytest.raises(InputError, match="no seeds"):
        estimate([])


def test_how_estimates_are_printed() -> None:
    assert f"{Estimate(0.934, 0.021, 3):.0%}" == "93 ± 2 %"
    assert f"{Estimate(0.934, None, 1):.0%}" == "93%"
    assert f"{Estimate(3.61, 1.42, 5):+.1f}" == "+3.6 ± 1.4"
    assert f"{Estimate(1.5, 0.25, 3):.2f}" == "1.50 ± 0.25"
    assert f"{Estimate(12.34, 0.56, 3):.3g}" == "12.3 ± 0.6"
    shown = {0.0: "0", 2e-44: "10⁻⁴⁴", 0.043: "4.3 %", 0.85: "85 %", 2.0: "200 %"}
    assert {value: r.as_power(value) for value in shown} == shown


def test_selecting(results: Results) -> None:
    assert len(results.select("reach", "recall", architecture="CNN")) == 4  # two distances, two seeds
    assert results.over("reach", "recall", lambda unit: 1.0, architecture="CNN", distance=2).mean == 1
    with pytest.raises(InputError, match="with distance=99"):
        results.select("reach", "recall", distance=99)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ('{"plan": 3}', "is not a comparison"), ("[1]", "is not a comparison")]
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_results(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_results(tmp_path / "y.json")


def test_the_file_has_its_setup(results: Results) -> None:
    data = json.loads(results.path.read_text(encoding="utf-8"))
    assert data["card"]["cores"] >= 1
    assert data["command"] == "glassformer compare"
    assert data["cpu"] > 0
    assert {"seconds", "cpu", "load", "began", "version"} <= data["units"][0].keys()
    shown = dict(setup(results))
    assert shown["seeds"] == "0, 1"


def test_the_median_of_an_even_number_of_loads_lies_between_the_middle_two(results: Results) -> None:
    data = copy.deepcopy(results.data)
    data["units"] = [unit | {"load": load} for unit, load in zip(data["units"][:2], (1.0, 2.0), strict=True)]
    assert dict(setup(Results(data, results.path)))["load"] == "1.0 to 2.0, median 1.50"


@pytest.fixture
def made(results: Results) -> Results:
    """Known numbers: t = n² for the Transformer and n for the others, both times d."""
    data: dict[str, Any] = copy.deepcopy(results.data)
    for unit in data["units"]:
        result, settings = unit["result"], unit["settings"]
        if (unit["task"], unit["part"]) == ("cost", "layer"):
            n, d = settings["n"], settings["d"]
            result["both"] = {name: d * (n * n / 20 if name == "Transformer" else n) for name in results.architectures}
            result["halves"] = {SQUARE: n * n * d, LINEAR: n * d * d}
        elif (unit["task"], unit["part"]) == ("reach", "recall"):
            far = settings["architecture"] == "Transformer" or settings["distance"] < 4
            result["accuracy"] = 0.95 if far or (settings["architecture"] == "GRU" and unit["seed"] == 0) else 0.2
        elif (unit["task"], unit["part"]) == ("data", "images"):
            better = settings["architecture"] == "CNN" and settings["size"] == 8
            result["accuracy"] = (0.8 if better else 0.5) + 0.01 * unit["seed"] * better
        elif (unit["task"], unit["part"]) == ("bias", "images"):
            result["accuracy"] = {"0": 0.9, "1": 0.8, "4": 0.5 + 0.1 * unit["seed"]}
    return Results(data, results.path)


def test_exponents(made: Results) -> None:
    assert r.exponent_in_n(made, "Transformer").measured.mean == pytest.approx(2)
    assert r.exponent_in_n(made, "RNN").measured.mean == pytest.approx(1)
    assert r.exponent_in_d(made, "LSTM").measured.mean == pytest.approx(1)
    assert r.speed_up(made, "MLP") > 0
    assert 1.1 < r.exponent_in_n(made, "Transformer").counted < 1.9  # 4nd² + 2n²d
    assert r.exponent_in_n(made, "MLP").counted == pytest.approx(1)


def test_crossings(made: Results) -> None:
    halves = r.crossing(made, 16)  # n²d = nd²
    assert halves is not None
    assert halves.mean == pytest.approx(16)
    assert r.overtaken(made, "RNN", 16) == pytest.approx(20)  # n²/20 = n
    assert r.crosses_one([8, 16], [0.2, 0.9]) is None
    assert r.crosses_one([8, 16], [1.2, 1.9]) == 8
    assert r.crosses_one([4, 8, 16], [1.2, 0.5, 2.0]) == pytest.approx(8 * 2**0.5)


def test_the_share_of_seeds_that_learn(made: Results) -> None:
    assert r.reach(made, "Transformer") == 4
    assert r.reach(made, "GRU") == 2
    assert [r.learned(made, name, 4) for name in ("Transformer", "GRU", "LSTM")] == [2, 1, 0]
    recall = next(table for table in tables(made) if table.title == "Recall after training")
    assert next(row for row in recall.rows if row[0] == "GRU") == ("GRU", "2/2 (95%)", "1/2 (57%)")
    row = next(line for line in summary_table(made).splitlines() if line.startswith("| GRU"))
    assert row.split(" | ")[1] == "2 / 1"


def test_the_change_of_accuracy_under_shifts(made: Results) -> None:
    loss = r.shift_loss(made, "CNN", "centred", 4)
    assert loss.mean == pytest.approx(-0.35)
    assert loss.half is not None


def test_where_the_gap_closes(made: Results) -> None:
    assert r.gap(made, "fashion-mnist", 8).mean == pytest.approx(0.305)
    assert r.gap(made, "fashion-mnist", 16).mean == pytest.approx(0)
    assert r.closes(made, "fashion-mnist") == 16
    for unit in made.units:
        if unit["part"] == "images" and unit["task"] == "data" and unit["settings"]["architecture"] == "CNN":
            unit["result"]["accuracy"] = 0.9 + 0.001 * unit["seed"]
    assert r.closes(made, "fashion-mnist") is None


@pytest.mark.parametrize(
    ("few", "many", "text"),
    [
        (0.3, 0.1, "the gap narrows and does not close"),
        (0.3, 0.0, "the gap narrows and no longer favours the CNN from 16 images on"),
        (0.1, 0.3, "the gap widens and does not close"),
        (0.1, 0.1, "does not change by more than chance"),
    ],
)
def test_the_sentence_about_the_gap(results: Results, few: float, many: float, text: str) -> None:
    data = copy.deepcopy(results.data)
    for unit in data["units"]:
        if unit["task"] == "data" and unit["part"] == "images":
            better = unit["settings"]["architecture"] == "CNN"
            luck = 1e-3 * unit["seed"] * better * (unit["settings"]["size"] == 8)
            unit["result"]["accuracy"] = 0.5 + better * (few if unit["settings"]["size"] == 8 else many) + luck
    assert text in findings(Results(data, results.path))


def test_a_size_with_fewer_seeds_is_shown_and_not_judged(results: Results) -> None:
    """The gap of one seed has no interval, so that it must not decide whether the gap narrows or closes."""
    data = copy.deepcopy(results.data)
    data["plan"]["data"]["sizes"], data["plan"]["data"]["size_steps"] = [8, 12, 16], [2, 3, 3]
    data["plan"]["data"]["size_seeds"] = [2, 2, 1]
    for unit in [unit for unit in data["units"] if unit["task"] == "data" and unit["part"] == "images"]:
        better, size = unit["settings"]["architecture"] == "CNN", unit["settings"]["size"]
        unit["result"]["accuracy"] = 0.5 + 0.1 * better * (size == 8) + 1e-3 * unit["seed"]
        if size == 16:
            data["units"].append({**copy.deepcopy(unit), "settings": {**unit["settings"], "size": 12}})
            data["units"][-1]["result"]["accuracy"] = 0.5 + 0.1 * better + 1e-3 * unit["seed"]
            if unit["seed"] == 1:
                data["units"].remove(unit)
    made = Results(data, results.path)
    assert r.judged_sizes(made) == [8, 12]
    assert r.closes(made, "fashion-mnist") is None
    text = findings(made)
    assert "2 seeds (1 with 16 images)" in text
    assert "does not change by more than chance and does not close; with 16 (1 seed) it is +0.0." in text
    table = next(each for each in tables(made) if each.title == "Accuracy as the training set grows")
    assert [row[1] for row in table.rows] == ["8", "12", "16 (1 seed)"]
    assert "Only sizes of up to 12 images, which have every seed, count" in table.note


def test_every_table_has_a_value_in_every_cell(results: Results) -> None:
    made = tables(results)
    assert len(made) == 14
    for table in made:
        assert table.rows, table.title
        assert table.note
        for row in table.rows:
            assert len(row) == len(table.head), table.title
            for cell in row[1:]:
                known = ("never", "outside", "–", "not measurable")
                assert any(c.isdigit() for c in cell) or cell in known, (table.title, row)
    by_title = {table.title.partition(",")[0]: table for table in made}
    for title in ("Time of a layer", "Exponents", "Memory of a layer", "Parallelism", "Recall after training"):
        assert [row[0] for row in by_title[title].rows] == list(ARCHITECTURES)
    assert "Dosovitskiy" in by_title["The published curve"].note


def test_only_measured_tasks_are_shown(results: Results) -> None:
    some = Results(results.data, results.path)
    some.plan = replace(some.plan, tasks=("reach",))
    assert [table.title for table in tables(some)][:3] == [
        "Recall after training", "Sequences longer than in training", "Gradient before training",
    ]  # fmt: skip
    head = summary_table(some).splitlines()[0]
    assert head == "| | recall over 2 / 4 tokens | trained on 8, tested on 16 tokens |"
    for text in (summary_table(some), findings(some)):
        assert "Not measured yet: streaming, cost, bias, data." in text
    assert "Not measured yet" not in summary_table(results)


def test_every_finding_has_its_numbers(results: Results) -> None:
    first, _, *rest = findings(results).splitlines()
    assert first.startswith("Measured by `glassformer compare`: 2 seeds")
    assert len(rest) >= 8
    for line in rest:
        assert line.startswith("- ")
        assert line.endswith(".")
        assert any(c.isdigit() for c in line)


def test_a_best_rate_at_the_edge_of_the_search_is_named() -> None:
    """On the published results, with the searches of one task made up: one ends at the edge, all others inside."""
    path = latest()
    assert path is not None
    results = load_results(path)
    searches = [unit for unit in results.units if (unit["task"], unit["part"]) == ("bias", "search")]
    for unit in searches:
        rates = sorted({each["lr"] for each in unit["result"]["trials"]})
        unit["result"]["lr"] = rates[-1] if unit is searches[0] else rates[1]
        for each in unit["result"]["trials"]:
            each["accuracy"] = 0.9 if each["lr"] == unit["result"]["lr"] else 0.5
    edges = lambda: "".join(line for line in findings(results).splitlines() if "edge of the range searched" in line)
    first, *others = (f"bias, {unit['settings']['architecture']}" for unit in searches)
    assert first in edges()
    assert not any(other in edges() for other in others)
    for each in searches[0]["result"]["trials"]:
        each["accuracy"] = 0.9  # a tie, decided by the loss
    assert first not in edges()


def test_threads_are_reported_only_if_the_machine_was_quiet(results: Results) -> None:
    data = copy.deepcopy(results.data)
    for load_then, shown in ((0.9, True), (7.0, False)):
        for unit in data["units"]:
            unit["load"] = load_then
        assert ("Speed-up of a layer" in findings(Results(data, results.path))) == shown


@pytest.mark.slow
def test_every_figure_is_drawn(results: Results) -> None:
    made = {each.name: each for each in figures(results)}
    assert list(made) == ["reach", "longer", "shifts", "streaming", "cost", "crossing", "data"]
    assert all(to_bytes(each.figure).startswith(b"\x89PNG") for each in made.values())
    shown = [text.get_text() for text in made["cost"].figure.axes[0].get_legend().get_texts()]
    assert shown == list(ARCHITECTURES)


def test_the_page_stands_alone(results: Results) -> None:
    text = comparison_page(results)
    assert text.count("data:image/png;base64,") == 7
    assert "<script" not in text
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    assert "Sequences longer than in training" in text


def test_sections_between_markers_are_rewritten(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    sections = [f"<!-- {name} -->\nold text\n<!-- /{name} -->" for name in ("findings", "comparison")]
    path.write_text("\n".join(["first", *sections, "last"]))
    update(results, path)
    text = path.read_text(encoding="utf-8")
    assert "old text" not in text
    assert text.startswith("first\n<!-- findings -->\nMeasured by")
    assert text.endswith("<!-- /comparison -->\nlast")
    link = text.partition(f"[{results.path.name}](")[2].partition(")")[0]
    assert (path.parent / link).samefile(results.path)
    update(results, path)
    assert path.read_text(encoding="utf-8") == text
    path.write_text("nothing")
    with pytest.raises(InputError, match="has no <!-- comparison -->"):
        update(results, path)


def test_the_published_pages_show_the_published_results() -> None:
    """`make compare` writes both; a number changed by hand, or results that were not written in, are found."""
    root = Path(__file__).parents[3]
    found = sorted((root / "results").glob("compare-full-*.json"))
    for name, path in (("comparison", root / "README.md"), ("findings", root / "docs" / "compare.md")):
        text = path.read_text(encoding="utf-8")
        shown = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
        if found:
            assert shown == section(load_results(found[-1]), name, path)
        else:
            assert not any(c.isdigit() for c in shown), "numbers without results"


def test_the_published_gap_is_against_the_best_transformer() -> None:
    assert [round(each.gap, 2) for each in FIGURE_3] == [3.39, 0.24, -0.50]
    last = [each.images for each in FIGURE_3 if each.gap > 0][-1]
    first = next(each.images for each in FIGURE_3 if each.gap < 0)
    assert last < FIGURE_4[1] < first  # Figures 3 and 4 agree about where it closes
