from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from glassformer.cli.main import build


def test_the_command(writer: Path, reader: Path) -> None:
    shown = CliRunner().invoke(build(), ["info", str(writer)], catch_exceptions=False).stdout.splitlines()
    assert shown[0] == "family      gpt2 (GPT2LMHeadModel)"
    assert shown[-1] == "verbs       generate"
    shown = CliRunner().invoke(build(), ["info", str(reader)], catch_exceptions=False).stdout.splitlines()
    assert "classes     2" in shown
    assert shown[-1] == "verbs       embed, classify"
