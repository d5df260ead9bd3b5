"""Weights go out as they came in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.checkpoints import load, published_weights
from glassformer.errors import ConfigError
from glassformer.models import Decoder, decoder


def test_as_it_came(tiny: Path) -> None:
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(tiny / "model.safetensors").items()}
    save_file(tensors, tiny / "model.safetensors")
    given = published_weights(load(tiny))
    assert given.keys() == tensors.keys()
    assert all(torch.equal(given[name], tensor) for name, tensor in tensors.items())


def test_a_model_of_our_own_in_usual_names() -> None:
    model = Decoder(decoder.tiny(), seed=0)
    given = published_weights(model, "gpt2")
    assert given["transformer.h.0.attn.c_attn.weight"].shape == (16, 48)
    with pytest.raises(ConfigError, match="no published family"):
        published_weights(model)
    with pytest.raises(ConfigError, match="'nonsense'"):
        published_weights(model, "nonsense")
