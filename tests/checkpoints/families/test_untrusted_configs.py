"""Any value of any field of any family's config.json gives a model or one line that says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glassformer.checkpoints import open_published
from glassformer.errors import GlassError

STRANGE = [None, True, 0, 3, -1, 10**9, 10**30, 1.5, float("nan"), float("inf"), "", "x" * 1000, [], [1], {"a": 1}]
SIZES = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
GPT2 = {"vocab_size": 30, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 20}
T5 = {"vocab_size": 30, "d_model": 12, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 3}
MARIAN = {"vocab_size": 30, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "pad_token_id": 3}
MARIAN |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}

IMAGE = {name: SIZES[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
IMAGE |= {"image_size": 8, "patch_size": 4}
WHISPER = MARIAN | {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 14, "eos_token_id": 3}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("name", "kind", "sizes"),
    [
        ("Bert", "BertForMaskedLM", SIZES),
        pytest.param("Roberta", "RobertaForSequenceClassification", SIZES, marks=pytest.mark.slow),
        ("GPT2", "GPT2LMHeadModel", GPT2 | {"bos_token_id": 0, "eos_token_id": 0}),
        ("Llama", "LlamaForCausalLM", SIZES),
        pytest.param("T5", "T5ForConditionalGeneration", T5, marks=pytest.mark.slow),
        pytest.param("Marian", "MarianMTModel", MARIAN | {"decoder_start_token_id": 3}, marks=pytest.mark.slow),
        ("ViT", "ViTForImageClassification", IMAGE),
        pytest.param("Dinov2", "Dinov2Model", IMAGE, marks=pytest.mark.slow),
        pytest.param("CLIPVision", "CLIPVisionModel", IMAGE, marks=pytest.mark.slow),
        ("Whisper", "WhisperForConditionalGeneration", WHISPER),
    ],
)
@pytest.mark.timeout(60)
def test_strange_values(hf: Any, publish: Any, name: str, kind: str, sizes: dict[str, Any]) -> None:
    folder = publish(getattr(hf, kind)(getattr(hf, f"{name}Config")(**sizes)))
    raw = json.loads((folder / "config.json").read_text())
    refused: list[str] = []
    for field in [*raw, "rope_scaling", "rope_theta", "sliding_window"]:
        for value in STRANGE:
            (folder / "config.json").write_text(json.dumps(raw | {field: value}))
            try:
                open_published(folder)  # all that reads config.json; what follows compares shapes
            except GlassError as error:
                refused.append(str(error))
    assert len(refused) > 50  # of some 500
    assert all("\n" not in line and len(line) < 600 for line in refused)
