from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from glassformer import checkpoints
from glassformer.checkpoints import Compared, Report
from glassformer.cli.main import build


def test_equal_is_0(writer: Path) -> None:
    result = CliRunner().invoke(build(), ["parity", str(writer)], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("equal: ")


def test_different_is_1(writer: Path, monkeypatch: Any) -> None:
    report = Report("gpt2", "GPT2LMHeadModel", (Compared("decoder.0.O", "transformer.h.0", 0.1, 0.1),))
    monkeypatch.setattr(checkpoints, "parity", lambda folder, seed: report)
    result = CliRunner().invoke(build(), ["parity", str(writer)])
    assert result.exit_code == 1
    assert "differs first at decoder.0.O" in result.stdout
