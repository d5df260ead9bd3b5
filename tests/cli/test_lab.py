from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from glassformer.cli import main as cli
from glassformer.exercises.exercise import load


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
    assert load(example).heads


def test_several_claims(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(monkeypatch, "7", "8") == 0
    assert "small scalings" in capsys.readouterr().out
    assert lab(monkeypatch, "7", "8", "--json", "--no-cache") == 0
    data = json.loads(capsys.readouterr().out)
    assert [(each["claim"], each["verdict"]["kind"]) for each in data] == [(7, "holds when"), (8, "holds")]


def test_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(monkeypatch, "--list") == 0
    assert "alpha=2.0  the factor, above 1" in capsys.readouterr().out


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
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"glassformer: {line}")
    assert err.count("\n") == 1
