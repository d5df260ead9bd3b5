"""Inputs that fit the model, padded where models of its kind are padded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from glassformer.checkpoints.samples import padded, sample
from glassformer.errors import ConfigError
from glassformer.models import (
    CLIP,
    Decoder,
    Encoder,
    Seq2Seq,
    ViT,
    Whisper,
    clip,
    decoder,
    encoder,
    seq2seq,
    vit,
    whisper,
)


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (Encoder(replace(encoder.tiny(), classes=3, pooler=True)), False),
        (Decoder(decoder.tiny()), True),
        (Seq2Seq(seq2seq.tiny()), False),
    ],
)
def test_samples_run(model: nn.Module, left: bool) -> None:
    one, same = sample(model, seed=1), sample(model, seed=1)
    assert all(torch.equal(one.theirs[name], same.theirs[name]) for name in one.theirs)
    mask = one.theirs["attention_mask"]
    assert mask[0].all()
    assert not mask[1, 0 if left else -1]
    assert mask[1, -1 if left else 0]
    one.ours(model)


def test_pictures() -> None:
    model = ViT(vit.tiny()).double()
    one = sample(model)
    assert one.theirs["pixel_values"].shape == (2, 3, 8, 8)
    assert one.given(model)["pixel_values"].dtype == torch.float64
    one.ours(model)


@pytest.mark.parametrize(
    ("changes", "names"),
    [({}, {"pixel_values", "input_ids"}), ({"text": None}, {"pixel_values"}), ({"vision": None}, {"input_ids"})],
)
def test_pictures_and_texts(changes: dict[str, None], names: set[str]) -> None:
    model = CLIP(replace(clip.tiny(), **changes))  # type: ignore[arg-type]
    one = sample(model)
    assert set(one.theirs) == names
    one.ours(model)


def test_sounds() -> None:
    model = Whisper(whisper.tiny()).double()
    one = sample(model)
    assert one.theirs["input_features"].shape == (2, 6, 20)
    assert one.theirs["decoder_input_ids"].shape == (2, 12)
    one.ours(model)


def test_short_models_get_short_inputs() -> None:
    config = decoder.plain(5, 8, 1, 2, length=1)
    assert sample(Decoder(config)).theirs["input_ids"].shape == (2, 1)
    assert padded(1, left=True).all()


def test_other_models_are_named() -> None:
    with pytest.raises(ConfigError, match="Linear"):
        sample(nn.Linear(2, 2))
