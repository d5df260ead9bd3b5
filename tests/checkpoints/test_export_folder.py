from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.checkpoints import load, save
from glassformer.checkpoints.export_folder import export
from glassformer.errors import ConfigError
from glassformer.models import Decoder, Encoder, decoder, encoder


def require_same(one: Path, other: Path) -> None:
    ours, theirs = load_file(one), load_file(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_bit_for_bit(tmp_path: Path, write_gpt2: Callable[..., Path], dtype: torch.dtype) -> None:
    folder = write_gpt2(tmp_path / "tiny", Decoder(decoder.plain(30, 12, 2, 3, 20), seed=0), dtype)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {
        "lm_head.weight": tensors["transformer.wte.weight"].clone(),
        "transformer.h.0.attn.bias": torch.ones(1, 1),
    }
    save_file(tensors, folder / "model.safetensors")  # a copy of a tied weight, and a buffer
    (folder / "generation_config.json").write_text('{"eos_token_id": 3}')
    (folder / "tokenizer.json").write_text("{}")
    out = export(folder, tmp_path / "out")
    require_same(out / "model.safetensors", folder / "model.safetensors")
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        assert json.loads((out / name).read_text()) == json.loads((folder / name).read_text())


def test_from_our_own_format(tiny: Path, tmp_path: Path) -> None:
    save(load(tiny), tmp_path / "ours")
    out = export(tmp_path / "ours", tmp_path / "out")
    require_same(out / "model.safetensors", tiny / "model.safetensors")
    assert json.loads((out / "config.json").read_text()) == json.loads((tiny / "config.json").read_text())


def test_hugging_face_reads_it(hf: Any, tiny: Path, tmp_path: Path) -> None:
    peer = hf.GPT2LMHeadModel.from_pretrained(export(tiny, tmp_path / "out"))
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        torch.testing.assert_close(peer(tokens).logits, load(tiny)(tokens), atol=1e-5, rtol=1e-5)


def test_a_sentence_encoder_with_its_dense_layer(hf: Any, publish: Callable[..., Path], tmp_path: Path) -> None:
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    folder = publish(hf.BertModel(hf.BertConfig(vocab_size=20, max_position_embeddings=10, **sizes)))
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    for name in ("1_Pooling", "2_Dense"):
        (folder / name).mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "2_Dense" / "config.json").write_text('{"out_features": 5, "bias": true}')
    dense = {"linear.weight": torch.randn(5, 12), "linear.bias": torch.randn(5)}
    save_file(dense, folder / "2_Dense" / "model.safetensors")
    out = export(folder, tmp_path / "out")
    for name in (".", "2_Dense"):
        require_same(out / name / "model.safetensors", folder / name / "model.safetensors")
    tokens = torch.tensor([[5, 6, 7]])
    one, other = load(folder), load(out)
    assert torch.equal(one.sentences(one(tokens)), other.sentences(other(tokens)))


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    folder = save(Encoder(encoder.tiny()), tmp_path / "ours")
    refused(ConfigError, f"{folder} is of no published family", lambda: export(folder, tmp_path / "out"))
