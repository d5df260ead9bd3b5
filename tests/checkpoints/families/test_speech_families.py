"""Whisper equals Hugging Face's."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load, save
from glassformer.checkpoints import origin_of
from glassformer.core.positions import sinusoidal
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import Whisper

SMALL = {"vocab_size": 30, "num_mel_bins": 8, "d_model": 12, "max_source_positions": 10, "max_target_positions": 14}
SMALL |= {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 3}
SMALL |= {"encoder_ffn_dim": 20, "decoder_ffn_dim": 18, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
SMALL |= {"decoder_start_token_id": 4, "suppress_tokens": [5, 6], "begin_suppress_tokens": [7, 3]}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "relu", "decoder_layers": 3, "encoder_layers": 1},
        {"d_model": 18, "encoder_attention_heads": 1, "decoder_attention_heads": 9, "num_mel_bins": 5},
        {"tie_word_embeddings": False, "scale_embedding": True, "activation_function": "gelu_new"},
    ],
)
def test_whisper_is_theirs(hf: Any, publish: Any, require_equal: Any, changes: dict[str, Any]) -> None:
    model = require_equal(publish(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL | changes))))
    assert isinstance(model, Whisper)
    assert (model.config.start, model.config.end, model.config.length, model.config.frames) == (4, 3, 14, 20)
    assert model.config.tied == changes.get("tie_word_embeddings", True)
    assert not model.positions.requires_grad
    assert model.get_parameter("encoder.0.attention.WK.weight").requires_grad


def test_without_the_class_that_speaks(hf: Any, publish: Any, require_equal: Any) -> None:
    """Names without `model.`; the head is the table."""
    assert require_equal(publish(hf.WhisperModel(hf.WhisperConfig(**SMALL)))).config.tied


def test_sinusoids_are_theirs(hf: Any, publish: Any) -> None:
    """What they save is our formula: halves, divisor d/2 − 1."""
    positions = load(publish(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL)))).positions
    ours = sinusoidal(10, 12, layout="halves", divisor="d/2-1")
    torch.testing.assert_close(positions.detach(), ours, rtol=0, atol=1e-6)


def test_what_transcribing_needs_is_carried(hf: Any, publish: Any, tmp_path: Any) -> None:
    model = hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL))
    more = {"forced_decoder_ids": [[1, 9], [2, 10]], "lang_to_id": {"<|en|>": 9}, "no_timestamps_token_id": 12}
    folder = publish(model)
    given = json.loads((folder / "generation_config.json").read_text()) | SMALL | more
    (folder / "generation_config.json").write_text(json.dumps(given))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": 8, "n_fft": 400, "hop_length": 160}))
    for loaded in (load(folder), load(save(load(folder), tmp_path / "ours"))):
        origin = origin_of(loaded)
        assert origin is not None
        assert origin.generation["suppress_tokens"] == [5, 6]
        assert origin.generation["begin_suppress_tokens"] == [7, 3]
        assert origin.generation["forced_decoder_ids"] == [[1, 9], [2, 10]]
        assert origin.generation["lang_to_id"] == {"<|en|>": 9}
        assert origin.raw["decoder_start_token_id"] == 4
        assert origin.file("preprocessor_config.json") is not None


def test_it_speaks_as_theirs_would(hf: Any, publish: Any) -> None:
    """Greedily, from a plain loop over Hugging Face's logits."""
    folder = publish(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL)))
    frames = torch.randn(3, 20, 8, generator=torch.Generator().manual_seed(0))
    theirs = hf.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    said = torch.full((3, 1), 4)
    with torch.no_grad():
        for _ in range(9):
            logits = theirs(input_features=frames.mT, decoder_input_ids=said).logits
            said = torch.cat([said, logits[:, -1].argmax(-1, keepdim=True)], 1)
    answers = generate_ids(load(folder), list(frames), stopping=Stopping(max_new_tokens=9))
    for answer, row in zip(answers, said[:, 1:].tolist(), strict=True):
        upto = row.index(3) + 1 if 3 in row else 9
        assert list(answer.tokens) == row[:upto]


def test_a_copy_of_the_head(hf: Any, publish: Any) -> None:
    folder = publish(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).config.tied


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["WhisperForAudioClassification"]}, "WhisperForAudioClassification"),
        ({"d_model": 13}, "does not split|13"),
        ({"activation_function": "mish"}, "mish"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"max_source_positions": 10**9}, "max_source_positions"),
    ],
)
def test_what_is_not_supported_is_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | changes))
    with pytest.raises((ConfigError, CheckpointError), match=named):
        load(folder)
