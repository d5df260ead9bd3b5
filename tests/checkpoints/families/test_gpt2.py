"""GPT-2 against Hugging Face."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.errors import ConfigError

SMALL = {"vocab_size": 30, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 20}
SMALL |= {"bos_token_id": 0, "eos_token_id": 0}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("GPT2LMHeadModel", {}),
        ("GPT2LMHeadModel", {"tie_word_embeddings": False, "activation_function": "relu", "n_inner": 17}),
        ("GPT2LMHeadModel", {"scale_attn_weights": False, "layer_norm_epsilon": 0.1, "n_head": 1}),
        ("GPT2LMHeadModel", {"n_embd": 15, "n_layer": 3, "activation_function": "gelu"}),
        ("GPT2Model", {}),
    ],
)
def test_gpt2_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.GPT2Config(**SMALL | changes))))
    assert model.config.tied == changes.get("tie_word_embeddings", True)


def test_the_first_published_form(hf: Any, publish: Any, require_equal: Any) -> None:
    """No `transformer.` before the names, and a mask among the weights."""
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    bare |= {f"h.{i}.attn.bias": torch.ones(20, 20).tril()[None, None] for i in range(2)}
    save_file(bare, folder / "model.safetensors", metadata={"format": "pt"})
    require_equal(folder)


def test_weights_are_not_copied(hf: Any, publish: Any) -> None:
    """q, k, v and transposed matrices are views of the mapped file."""
    model = load(publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL))))
    block = model.get_submodule("decoder.0.attention")
    assert block.WQ.weight.untyped_storage().data_ptr() == block.WK.weight.untyped_storage().data_ptr()


def test_other_features_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"scale_attn_by_inverse_layer_idx": True}))
    with pytest.raises(ConfigError, match="scale_attn_by_inverse_layer_idx"):
        load(folder)
