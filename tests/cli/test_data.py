from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import build
from glassformer.errors import InputError


def test_the_list_names_what_there_is(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "stories15m").mkdir()
    shown = CliRunner().invoke(build(), ["data", "list"]).stdout
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert rows["stories15m"].split()[-1] == str(tmp_path / "stories15m")
    assert rows["whisper-tiny.en"].endswith(": not fetched")
    assert {"all-minilm-l6-v2", "smollm2-135m", "librivox"} < rows.keys()
    assert rows["cifar10"].split()[1:5] == ["139", "MB", "none", "stated"]
    assert rows["cifar10"].endswith(": not fetched")
    assert rows["fashion-mnist"].endswith(": embedded, 5,000 pictures, 500 of each class")
    assert "CC BY 2.0 FR" in rows["tatoeba-en-fr"]


def test_what_is_there_is_not_fetched_again(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "stories15m").mkdir()
    assert CliRunner().invoke(build(), ["data", "fetch", "stories15m"]).stdout == f"{tmp_path / 'stories15m'}\n"
    with pytest.raises(InputError, match="there is no 'x' to fetch"):
        CliRunner().invoke(build(), ["data", "fetch", "stories15m", "x"], catch_exceptions=False)
