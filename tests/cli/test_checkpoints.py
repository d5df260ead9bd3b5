"""Commands for checkpoints: info, convert, export, parity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from glassformer import checkpoints
from glassformer.checkpoints import ParityReport, ParityRow, load_folder, published_weights
from glassformer.cli.main import build_app
from glassformer.errors import InputError
from glassformer.models import Decoder, decoder


def test_info_the_command(writer: Path, reader: Path) -> None:
    shown = CliRunner().invoke(build_app("info"), ["info", str(writer)], catch_exceptions=False).stdout.splitlines()
    assert shown[0] == "family      gpt2 (GPT2LMHeadModel)"
    assert shown[-1] == "commands    generate"
    shown = CliRunner().invoke(build_app("info"), ["info", str(reader)], catch_exceptions=False).stdout.splitlines()
    assert "classes     2" in shown
    assert shown[-1] == "commands    embed, classify"


def test_convert_the_command(tmp_path: Path) -> None:
    model = Decoder(decoder.plain(30, 12, 1, 3, 20), seed=0)
    torch.save(published_weights(model, "gpt2"), tmp_path / "model.bin")
    sizes = '"vocab_size": 30, "n_embd": 12, "n_layer": 1, "n_head": 3, "n_positions": 20'
    (tmp_path / "config.json").write_text(f'{{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], {sizes}}}')
    call = ["convert", str(tmp_path / "model.bin"), "-o", str(tmp_path / "new")]
    assert CliRunner().invoke(build_app(), call, catch_exceptions=False).stdout == f"{tmp_path / 'new'}\n"
    tokens = torch.tensor([[1, 2, 3]])
    new = load_folder(tmp_path / "new")
    there = new.state_dict()
    assert all(torch.equal(weight, there[name]) for name, weight in model.state_dict().items())
    # where weights lie in memory decides on some processors which kernel runs, and so the last bit
    torch.testing.assert_close(new(tokens), model(tokens))
    with pytest.raises(InputError, match="already exists"):
        CliRunner().invoke(build_app(), call, catch_exceptions=False)


def test_an_exported_folder_equals_the_original(writer: Path, tmp_path: Path) -> None:
    call = ["export", str(writer), "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(build_app(), call, catch_exceptions=False).stdout == f"{tmp_path / 'out'}\n"
    read = lambda folder: (folder / "tokenizer.json").read_bytes()
    assert read(tmp_path / "out") == read(writer)


def test_onnx_is_asked_for(writer: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="out does not end in"):
        CliRunner().invoke(
            build_app(), ["export", str(writer), "-o", str(tmp_path / "out"), "--onnx"], catch_exceptions=False
        )


def test_equal_is_0(writer: Path) -> None:
    result = CliRunner().invoke(build_app("parity"), ["parity", str(writer)], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("equal: ")


def test_different_is_1(writer: Path, monkeypatch: Any) -> None:
    report = ParityReport("gpt2", "GPT2LMHeadModel", (ParityRow("decoder.0.O", "transformer.h.0", 0.1, 0.1),))
    monkeypatch.setattr(checkpoints, "parity", lambda folder, seed: report)
    result = CliRunner().invoke(build_app("parity"), ["parity", str(writer)])
    assert result.exit_code == 1
    assert "differs first at decoder.0.O" in result.stdout
