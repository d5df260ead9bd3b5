from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from glassformer.checkpoints import save
from glassformer.checkpoints.info import info, verbs_of
from glassformer.models import (
    CLIP,
    MLP,
    ConvNet2d,
    Decoder,
    Encoder,
    Hybrid,
    ImageInput,
    Seq2Seq,
    TokenWindow,
    ViT,
    Whisper,
    clip,
    convolutional,
    decoder,
    encoder,
    hybrid,
    mlp,
    seq2seq,
    vit,
    whisper,
)


def test_a_published_folder(tiny: Path) -> None:
    (tiny / "tokenizer.json").write_text("{}")
    found = info(tiny)
    assert found.facts == {
        "family": "gpt2 (GPT2LMHeadModel)",
        "model": "Decoder",
        "parameters": "4,392",
        "layers": "2 × 12, 3 heads",
        "vocabulary": "30",
        "context": "20 tokens",
        "tokenizer": "tokenizer.json",
    }
    assert found.verbs == ("generate",)
    assert str(found).splitlines()[-1] == "verbs       generate"


MODELS = {
    "generate": Decoder(decoder.tiny_modern()),
    "translate, generate": Seq2Seq(seq2seq.tiny()),
    "embed": Encoder(encoder.tiny()),
    "embed, classify": Encoder(replace(encoder.tiny(), classes=3)),
    "classify": ViT(vit.tiny()),
    "": ViT(replace(vit.tiny(), classes=0)),
    "transcribe": Whisper(whisper.tiny()),
}


@pytest.mark.parametrize("expected", MODELS)
def test_every_kind(tmp_path: Path, expected: str) -> None:
    model = MODELS[expected]
    assert ", ".join(verbs_of(model, words=True)) == expected
    found = info(save(model, tmp_path / "model"))
    assert found.facts["family"] == "our own"
    assert found.facts["parameters"] == f"{sum(weight.numel() for weight in model.parameters()):,}"
    assert "layers" in found.facts
    assert found.verbs == (("classify",) if expected == "classify" else ())  # no words came along


def test_others_that_name_pictures(tmp_path: Path) -> None:
    net = Hybrid(hybrid.tiny())
    assert info(save(net, tmp_path / "model")).facts["image"] == "8×8 in 4×4"
    seeing = MLP(mlp.tiny(ImageInput(channels=1, height=4, width=4), 3))
    for model in (net, ConvNet2d(convolutional.tiny()), seeing):
        assert verbs_of(model, words=False) == ("classify",)
    assert verbs_of(MLP(mlp.tiny(TokenWindow(vocabulary=4, length=2, width=2), 3)), words=False) == ()


def test_clip_needs_both_towers() -> None:
    assert verbs_of(CLIP(clip.tiny()), words=True) == ("classify",)
    assert verbs_of(CLIP(replace(clip.tiny(), vision=None)), words=True) == ()
    assert verbs_of(nn.Linear(1, 1), words=True) == ()
