"""Marian against Hugging Face."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load

SMALL = {"vocab_size": 30, "d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 16}
SMALL |= {"encoder_attention_heads": 3, "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 14}
SMALL |= {"pad_token_id": 3, "decoder_start_token_id": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "swish", "scale_embedding": True},
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 25},
        {"d_model": 9, "encoder_attention_heads": 1, "decoder_attention_heads": 3},
        {"d_model": 6, "activation_function": "relu", "decoder_layers": 3},
    ],
)
def test_marian_is_theirs(hf: Any, publish: Any, require_equal: Any, changes: dict[str, Any]) -> None:
    model = require_equal(publish(hf.MarianMTModel(hf.MarianConfig(**SMALL | changes))))
    assert model.config.start == model.config.pad == 3
    shared = changes.get("share_encoder_decoder_embeddings", True) and changes.get("tie_word_embeddings", True)
    assert (model.decoder.embed.table is model.encoder.embed.table) == shared


def test_tables_of_positions_are_passed_over(hf: Any, publish: Any) -> None:
    folder = publish(hf.MarianMTModel(hf.MarianConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    tensors |= {f"model.{side}.embed_positions.weight": torch.ones(16, 12) for side in ("encoder", "decoder")}
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).config.head_bias
