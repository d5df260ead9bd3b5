"""Parity with another implementation: sample inputs, float64, the first difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import softmax

import glassformer as gf
from glassformer.checkpoints import ParityReport, ParityRow, parity
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.checkpoints.parity import lengths_to_compare, record_values, relative_error
from glassformer.checkpoints.samples import padded, random_sample
from glassformer.errors import CheckpointError, ConfigError, InputError
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

# Parity names the first quantity that differs, and tells a bug from rounding.


SMALL = {"vocab_size": 30, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 20}
SMALL |= {"bos_token_id": 0, "eos_token_id": 0}


def test_the_report(hf: Any, publish: Any) -> None:
    report = parity(publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL))))
    assert report.equal
    assert report.peer == "GPT2LMHeadModel"
    names = [row.ours for row in report.rows]
    assert names[:3] == ["decoder.embed.X", "decoder.0.attention.A", "decoder.0.attention.O"]
    assert names[-1] == "word_head"
    assert "decoder.2.O" in names
    assert "equal: 18 quantities" in str(report)


def test_the_first_difference_is_named(hf: Any, publish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong activation, as if we misread config.json: what comes after it differs, not what comes before."""
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL, activation_function="gelu_new")))
    from glassformer.checkpoints import fields

    monkeypatch.setitem(fields.ACTIVATION_NAMES, "gelu_new", "gelu")
    report = parity(folder)
    assert not report.equal
    assert report.first is not None
    assert report.first.ours == "decoder.0.ffn.O"
    assert report.first.exact > 1e-6  # erf and tanh differ by about 1e-4: no rounding
    assert "differs first at decoder.0.ffn.O" in str(report)


def test_a_peer_that_fails_is_one_line(hf: Any, publish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL)))

    def fails(*_: Any, **__: Any) -> None:
        raise KeyError("n_layer")

    monkeypatch.setattr(hf.GPT2LMHeadModel, "forward", fails)
    with pytest.raises(CheckpointError, match=r"Hugging Face's GPT2LMHeadModel fails on this folder .KeyError"):
        parity(folder)
    monkeypatch.setattr(hf.GPT2LMHeadModel, "from_pretrained", fails)
    with pytest.raises(CheckpointError, match="Hugging Face's GPT2LMHeadModel fails on this folder"):
        parity(folder)


TINY = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def test_a_context_of_eight_tokens_is_compared_with_eight(hf: Any, publish: Any) -> None:
    report = parity(publish(hf.BertModel(hf.BertConfig(**TINY, max_position_embeddings=8))))
    assert report.lengths == (8,)
    assert "inputs of 8 tokens" in str(report)


def test_a_window_wider_than_the_context_was_not_tried(hf: Any, publish: Any) -> None:
    config = hf.MistralConfig(**TINY, num_key_value_heads=1, sliding_window=20, max_position_embeddings=16)
    report = parity(publish(hf.MistralForCausalLM(config)))
    assert report.lengths == (12,)
    assert "not tried: a sliding window of 20 tokens" in str(report)


def test_lengths_that_are_stated_are_those_of_the_inputs() -> None:
    for model in (Encoder(encoder.tiny()), Decoder(decoder.tiny()), Seq2Seq(seq2seq.tiny()), CLIP(clip.tiny())):
        lengths, _ = lengths_to_compare(model)
        samples = [random_sample(model, length=length) for length in lengths]
        assert tuple(sample.theirs["input_ids"].shape[1] for sample in samples) == lengths


def test_image_sizes_that_were_not_tried_are_named(hf: Any, publish: Any) -> None:
    sizes = {name: TINY[name] for name in TINY if name != "vocab_size"}
    report = parity(publish(hf.ViTForImageClassification(hf.ViTConfig(**sizes, image_size=8, patch_size=4))))
    assert report.equal
    assert "not tried: images of another size than 8 × 8" in str(report)


def test_our_own_folders_have_no_peer(hf: Any, tmp_path: Path) -> None:
    gf.save(Decoder(decoder.tiny()), tmp_path)
    with pytest.raises(ConfigError, match="not belong to a published family"):
        parity(tmp_path)


def test_without_transformers(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "transformers":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(InputError, match="transformers is not installed"):
        parity(tiny)


def test_distance_passes_over_padding() -> None:
    a = torch.zeros(2, 3, 4)
    b = a.clone()
    b[0], b[1, 2] = 2.0, 9.0
    real = torch.tensor([[True] * 3, [True, True, False]])
    assert relative_error(b, b, real) == 0
    assert relative_error(a, b, real) == 1
    b[0] = 0
    a[0, 0, 0] = b[0, 0, 0] = 4.0
    assert relative_error(a, b, real) == 0
    assert relative_error(a, b, None) == 1
    assert relative_error(a, b[:, :2], real) == float("inf")
    A = torch.zeros(2, 5, 3, 3)
    A[1, :, 2] = 1
    A[0, 0, 0, 0] = 1
    assert relative_error(torch.where(A == 1, A, 0.5 * 0), A, real) == 0
    assert not relative_error(torch.full_like(a, torch.nan), b, real) <= 1


def test_what_is_recorded_leaves_no_trace() -> None:
    model = Decoder(decoder.tiny(), seed=0)
    with record_values(model, [("decoder.0.attention.A", 0), ("word_head", 0)]) as found:
        logits = model(torch.arange(6)[None])
    assert torch.equal(found["word_head", 0], logits)
    torch.testing.assert_close(found["decoder.0.attention.A", 0].sum(-1), torch.ones(1, 2, 6))
    assert not model.get_submodule("decoder.0.attention.A").watched
    assert not model.word_head._forward_hooks


def test_rounding_is_no_difference() -> None:
    assert not ParityRow("a", "b", 1e-6, 1e-15).differs
    assert ParityRow("a", "b", 1e-6, 1e-8).differs
    assert ParityRow("a", "b", 1e-2, 1e-15).differs
    assert ParityRow("a", "b", float("nan"), 1e-15).differs
    assert ParityReport("f", "P", (ParityRow("a", "b", 1.0, 1.0),)).first is not None


def test_heads_that_another_class_has(hf: Any, publish: Any) -> None:
    """A folder without `architectures` is compared with the plain model."""
    folder = publish(hf.GPT2Model(hf.GPT2Config(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    del raw["architectures"]
    (folder / "config.json").write_text(json.dumps(raw))
    report = parity(folder)
    assert report.equal
    assert report.rows[-1].ours == "decoder.norm"


# While it is on, nothing falls to float32.


def test_requests_for_float32_get_float64() -> None:
    x = torch.tensor([1 / 3], dtype=torch.float64)
    single = torch.FloatTensor
    with Float64Mode():
        assert x.float().dtype == torch.float64
        assert x.to(torch.float32).dtype == torch.float64
        assert x.to(dtype=torch.float).dtype == torch.float64
        assert softmax(x, -1, dtype=torch.float32).dtype == torch.float64
        assert torch.arange(3, dtype=torch.float).dtype == torch.float64
        assert torch.arange(3).to(dtype=torch.float).dtype == torch.float64
        assert torch.arange(3).float().dtype == torch.float32
        assert torch.FloatTensor([1.0]).dtype == torch.float64
    assert torch.FloatTensor is single
    assert x.float().dtype == torch.float32


# Inputs that fit the model, padded where models of its kind are padded.


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (Encoder(replace(encoder.tiny(), classes=3, pooler=True)), False),
        (Decoder(decoder.tiny()), True),
        (Seq2Seq(seq2seq.tiny()), False),
    ],
)
def test_samples_run(model: nn.Module, left: bool) -> None:
    one, same = random_sample(model, seed=1), random_sample(model, seed=1)
    assert all(torch.equal(one.theirs[name], same.theirs[name]) for name in one.theirs)
    mask = one.theirs["attention_mask"]
    assert mask[0].all()
    assert not mask[1, 0 if left else -1]
    assert mask[1, -1 if left else 0]
    one.ours(model)


def test_pictures() -> None:
    model = ViT(vit.tiny()).double()
    one = random_sample(model)
    assert one.theirs["pixel_values"].shape == (2, 3, 8, 8)
    assert one.given(model)["pixel_values"].dtype == torch.float64
    one.ours(model)


@pytest.mark.parametrize(
    ("changes", "names"),
    [({}, {"pixel_values", "input_ids"}), ({"text": None}, {"pixel_values"}), ({"vision": None}, {"input_ids"})],
)
def test_pictures_and_texts(changes: dict[str, None], names: set[str]) -> None:
    model = CLIP(replace(clip.tiny(), **changes))  # type: ignore[arg-type]
    one = random_sample(model)
    assert set(one.theirs) == names
    one.ours(model)


def test_sounds() -> None:
    model = Whisper(whisper.tiny()).double()
    one = random_sample(model)
    assert one.theirs["input_features"].shape == (2, 6, 20)
    assert one.theirs["decoder_input_ids"].shape == (2, 12)
    one.ours(model)


def test_short_models_get_short_inputs() -> None:
    config = decoder.plain(5, 8, 1, 2, length=1)
    assert random_sample(Decoder(config)).theirs["input_ids"].shape == (2, 1)
    assert padded(1, left=True).all()


def test_other_models_are_named() -> None:
    with pytest.raises(ConfigError, match="Linear"):
        random_sample(nn.Linear(2, 2))
