from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer.checkpoints import load, published_weights
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.models import Decoder, decoder


def test_the_command(tmp_path: Path) -> None:
    model = Decoder(decoder.plain(30, 12, 1, 3, 20), seed=0)
    torch.save(published_weights(model, "gpt2"), tmp_path / "model.bin")
    sizes = '"vocab_size": 30, "n_embd": 12, "n_layer": 1, "n_head": 3, "n_positions": 20'
    (tmp_path / "config.json").write_text(f'{{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], {sizes}}}')
    call = ["convert", str(tmp_path / "model.bin"), "-o", str(tmp_path / "new")]
    assert CliRunner().invoke(build(), call, catch_exceptions=False).stdout == f"{tmp_path / 'new'}\n"
    tokens = torch.tensor([[1, 2, 3]])
    new = load(tmp_path / "new")
    there = new.state_dict()
    assert all(torch.equal(weight, there[name]) for name, weight in model.state_dict().items())
    # where weights lie in memory decides on some processors which kernel runs, and so the last bit
    torch.testing.assert_close(new(tokens), model(tokens))
    with pytest.raises(InputError, match="is there already"):
        CliRunner().invoke(build(), call, catch_exceptions=False)
