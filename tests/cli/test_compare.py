from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.cli import main as cli
from glassformer.lab import comparison


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
        "Recall after training", "Longer than in training", "Gradient before training", "Streaming",
        "Search for learning rates",
    ]  # fmt: skip
    assert "<table>" in page.read_text(encoding="utf-8")
    assert sorted(path.name for path in figures.iterdir()) == ["longer.png", "reach.png", "streaming.png"]

    assert compare(monkeypatch, "--from", str(file), "--again", "streaming", "--output", str(tmp_path)) == 0
    assert "Gradient before training" in capsys.readouterr().out
    (file,) = tmp_path.glob("compare-quick-reach-streaming-*.json")
    both = json.loads(file.read_text())
    assert both["command"].startswith(data["command"] + "; glassformer compare --from")
    changed = {one["task"] for one, other in zip(both["units"], data["units"], strict=True) if one != other}
    assert changed == {"streaming"}


def test_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"glassformer: {line}")
    assert err.count("\n") == 1
