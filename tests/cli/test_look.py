from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from glassformer.cli.main import build
from glassformer.errors import InputError


def test_it_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(build(), ["look", "tiny:decoder", "a b a b", "-o", str(path), "--seed", "4"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{path}: 0.")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "Decoder: a b a b" in text
    assert "(seed 4)" in text


def test_mistakes_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(build(), ["look", "tiny:cat", "a", "-o", str(path)])
    assert isinstance(done.exception, InputError)
    assert not path.exists()
    done = CliRunner().invoke(build(), ["look", "tiny:vit", str(tmp_path / "none.png"), "-o", str(path)])
    assert isinstance(done.exception, InputError)
    assert not path.exists()
