"""T5 and T5 v1.1 against Hugging Face."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.errors import ConfigError

SMALL = {"vocab_size": 30, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_decoder_layers": 1, "layer_norm_epsilon": 0.1, "num_heads": 2},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9},
        {"feed_forward_proj": "gelu", "d_model": 9, "d_kv": 3},
    ],
)
def test_t5_is_theirs(hf: Any, publish: Any, require_equal: Any, changes: dict[str, Any]) -> None:
    model = require_equal(publish(hf.T5ForConditionalGeneration(hf.T5Config(**SMALL | changes))))
    assert (model.config.head_scale == 1.0) == (changes.get("tie_word_embeddings", True) is False)


def test_a_head_of_its_own(hf: Any, publish: Any, require_equal: Any) -> None:
    """v1.1 as it was published: lm_head beside the table, tie_word_embeddings false, nothing about a scale."""
    config = hf.T5Config(**SMALL, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    folder = publish(hf.T5ForConditionalGeneration(config))
    tensors = load_file(folder / "model.safetensors")
    head = torch.randn(30, 12, generator=torch.Generator().manual_seed(1))
    save_file(tensors | {"lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    raw = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    del raw["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps(raw))
    model = require_equal(folder)
    assert not model.config.tied
    assert model.config.head_scale == 1.0
    assert torch.equal(model.word_head.W.weight, head)


def test_the_first_published_form(hf: Any, publish: Any) -> None:
    """Copies of the table under three names, and a bias of the cross attention that nothing uses."""
    folder = publish(hf.T5ForConditionalGeneration(hf.T5Config(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    plain = load(folder)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["shared.weight"].clone()
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(32, 3)
    save_file(tensors, folder / "model.safetensors")
    again = load(folder)
    assert again.config == plain.config
    del tensors["shared.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert torch.equal(load(folder).encoder.embed.table.weight, plain.encoder.embed.table.weight)


@pytest.mark.parametrize("name", ["gated-gelu-new", "swiglu"])
def test_other_activations_are_named(hf: Any, publish: Any, name: str) -> None:
    folder = publish(hf.T5ForConditionalGeneration(hf.T5Config(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"feed_forward_proj": name}))
    with pytest.raises(ConfigError, match=name):
        load(folder)
