"""The lab and compare commands."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.cli import main as cli
from glassformer.exercises.exercise import load_exercise
from glassformer.lab import comparison


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def lab(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["glassformer", "lab", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


def test_one_claim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure, page, example = tmp_path / "7.svg", tmp_path / "r.html", tmp_path / "7.yaml"
    files = ("--figure", str(figure), "--report", str(page), "--counterexample", str(example))
    assert lab(monkeypatch, "7", "--set", "alpha=3", "--seed", "1", *files) == 0
    out = capsys.readouterr().out
    assert "holds when q_j·k_i > 0" in out
    assert "with α = 3 " in out
    assert "A doubled key that loses weight" in out
    assert figure.read_text(encoding="utf-8").startswith("<?xml")
    assert "<math" in page.read_text(encoding="utf-8")
    assert load_exercise(example).heads


def test_several_claims(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(monkeypatch, "7", "8") == 0
    assert "small scalings" in capsys.readouterr().out
    assert lab(monkeypatch, "7", "8", "--json", "--no-cache") == 0
    data = json.loads(capsys.readouterr().out)
    assert [(each["claim"], each["verdict"]["kind"]) for each in data] == [(7, "holds when"), (8, "holds")]


def test_lab_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(monkeypatch, "--list") == 0
    assert "alpha=2.0  scale factor of the key, above 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("99",), "there is no claim 99"),
        (("7", "--set", "alpha"), "--set alpha is not name=value"),
        (("7", "--set", "gamma=1"), "claim 7 has no parameter 'gamma'"),
        (("7", "--set", "seed=1"), "--set seed: seed is not a parameter of a claim"),
        (("7", "--set", "alpha=0"), "alpha is 0.0"),
        (("7", "8", "--set", "alpha=3"), "--set needs a single claim, got 2"),
        (("7", "--figure", "x.gif"), "--figure x.gif has an unknown format"),
        (("8", "--counterexample", "x.yaml"), "claim 8 has no counterexample"),
        (("--report", "no/such/page.html"), "there is no folder no/such for page.html"),  # before it measures
    ],
)
def test_lab_mistakes_are_one_line(
    arguments: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"glassformer: {line}")
    assert err.count("\n") == 1


def compare(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["glassformer", "compare", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick plan, smaller still."""
    plan = comparison.quick()
    reach = replace(plan.reach, gradients=(2, 3), distances=(2,), steps=1, tests=8, budget=2_000)
    reach = replace(reach, longer_steps=1, rates=(1e-2,), search=(2,))
    streaming = replace(plan.streaming, after=(10, 20), rounds=1, budget=4_000)
    small = replace(plan, reach=reach, streaming=streaming)
    monkeypatch.setattr(comparison, "quick", lambda: small, raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("cheap")
def test_measure_then_show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = ("--quick", "--only", "reach", "--only", "streaming", "--output", str(tmp_path))
    assert compare(monkeypatch, *out) == 0
    told = capsys.readouterr().out
    assert "Gradient before training" in told
    assert "Streaming" in told
    (file,) = tmp_path.glob("compare-quick-reach-streaming-*.json")
    data = json.loads(file.read_text())
    assert data["command"].startswith("glassformer compare --quick --only reach")
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    shown = ("--from", str(file), "--report", str(page), "--figures", str(figures), "--json")
    assert compare(monkeypatch, *shown) == 0
    tables = json.loads(capsys.readouterr().out)
    assert [table["title"] for table in tables] == [
        "Recall after training", "Sequences longer than in training", "Gradient before training", "Streaming",
        "Learning-rate search",
    ]  # fmt: skip
    assert "<table>" in page.read_text(encoding="utf-8")
    assert sorted(path.name for path in figures.iterdir()) == ["longer.png", "reach.png", "streaming.png"]

    assert compare(monkeypatch, "--from", str(file), "--again", "streaming", "--output", str(tmp_path)) == 0
    assert "Gradient before training" in capsys.readouterr().out
    (file,) = tmp_path.glob("compare-quick-reach-streaming-*.json")
    both = json.loads(file.read_text())
    assert both["command"].startswith("glassformer compare --from")
    assert [run["command"] for run in both["sources"]] == [data["command"]]
    changed = {one["task"] for one, other in zip(both["units"], data["units"], strict=True) if one != other}
    assert changed == {"streaming"}


def test_compare_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(monkeypatch, "--quick", "--list", "--only", "data") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "data,images,dataset=fashion-mnist,architecture=CNN,size=3000,seed=1" in lines


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--only", "speed"), "--only 'speed' is not a part of the comparison: choose one of reach"),
        (("--from", "nowhere.json"), "nowhere.json cannot be read"),
        (("--from", "x.json", "--quick"), "--from cannot be combined with --quick or --only"),
        (("--again", "cost,threads"), "--again needs --from FILE"),
        (("--quick", "--report", "no/such/page.html"), "there is no folder no/such for page.html"),
        (("--quick", "--readme", "nowhere.md"), "nowhere.md cannot be read"),
        (("--quick", "--only", "reach", "--readme", "x.md"), "x.md cannot be read"),
    ],
)
def test_compare_mistakes_are_one_line(
    arguments: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"glassformer: {line}")
    assert err.count("\n") == 1
