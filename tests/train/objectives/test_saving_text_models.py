"""What is saved comes back, halved or not, with its words and what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.checkpoints import load_folder, origin_of
from glassformer.data import bpe
from glassformer.models import Decoder, decoder
from glassformer.pipelines.tokenizers import tokenizer_of
from glassformer.train.objectives.text_folder import save_text_model


@pytest.mark.parametrize("half", [False, True])
def test_there_and_back(tmp_path: Path, half: bool) -> None:
    tokenizer = bpe.train(["the cat sat"], 270)
    model = Decoder(decoder.modern(tokenizer.get_vocab_size(), 16, 1, 2, 8, kv_heads=2, hidden=16), seed=1)
    said = {"config": {"a": 1}, "generation": {"eos_token_id": 2}}
    folder = save_text_model(model, tmp_path / "m", tokenizer, **said, half=half)
    kept = load_folder(folder)
    origin = origin_of(kept)
    assert origin is not None
    assert origin.raw == {"a": 1}
    assert origin.generation == {"eos_token_id": 2}
    assert tokenizer_of(kept).decode(tokenizer_of(kept).encode("the cat")) == "the cat"
    for (name, ours), theirs in zip(model.named_parameters(), kept.parameters(), strict=True):
        assert ours.dtype == theirs.dtype == torch.float32, name
        assert torch.equal(ours.half().float() if half else ours, theirs)
    assert origin_of(model) is None  # the model that was saved is left as it was
    size = sum(weight.numel() for weight in model.parameters()) * (2 if half else 4)
    assert size <= (folder / "model.safetensors").stat().st_size < size + 3000
