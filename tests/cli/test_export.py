from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import build
from glassformer.errors import InputError


def test_a_folder_comes_back(writer: Path, tmp_path: Path) -> None:
    call = ["export", str(writer), "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(build(), call, catch_exceptions=False).stdout == f"{tmp_path / 'out'}\n"
    read = lambda folder: (folder / "tokenizer.json").read_bytes()
    assert read(tmp_path / "out") == read(writer)


def test_onnx_is_asked_for(writer: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="out is not named as ONNX is"):
        CliRunner().invoke(
            build(), ["export", str(writer), "-o", str(tmp_path / "out"), "--onnx"], catch_exceptions=False
        )
