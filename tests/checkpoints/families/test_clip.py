"""CLIP, both towers and each alone, against Hugging Face."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load, save
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import CLIP

BLOCKS = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
VISION = BLOCKS | {"image_size": 8, "patch_size": 4}
TEXT = BLOCKS | {"vocab_size": 30, "max_position_embeddings": 9, "eos_token_id": 29, "bos_token_id": 28}


def both(hf: Any, vision: dict[str, Any], text: dict[str, Any], **more: Any) -> Any:
    return hf.CLIPModel(hf.CLIPConfig(vision_config=VISION | vision, text_config=TEXT | text, projection_dim=7, **more))


@pytest.mark.parametrize(
    ("vision", "text"),
    [
        ({}, {}),
        ({"layer_norm_eps": 0.1, "hidden_act": "gelu"}, {"hidden_size": 15, "intermediate_size": 11}),
        ({"hidden_size": 10, "num_attention_heads": 2, "num_channels": 1}, {"eos_token_id": 2, "layer_norm_eps": 0.1}),
        ({"num_hidden_layers": 1, "patch_size": 2}, {"hidden_act": "gelu", "num_attention_heads": 1}),
    ],
)
def test_both_towers(hf: Any, publish: Any, require_equal: Any, vision: dict[str, Any], text: dict[str, Any]) -> None:
    model = require_equal(publish(both(hf, vision, text)))
    assert isinstance(model, CLIP)
    assert model.config.end == (None if text.get("eos_token_id") == 2 else 29)
    assert model.config.width == 7


@pytest.mark.parametrize("kind", ["CLIPVisionModel", "CLIPVisionModelWithProjection"])
def test_the_image_tower(hf: Any, publish: Any, require_equal: Any, kind: str) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.CLIPVisionConfig(**VISION, projection_dim=5))))
    assert model.config.text is None
    assert model.config.width == (5 if "Projection" in kind else 0)


@pytest.mark.parametrize("kind", ["CLIPTextModel", "CLIPTextModelWithProjection"])
@pytest.mark.parametrize("end", [2, 29])
def test_the_text_tower(hf: Any, publish: Any, require_equal: Any, kind: str, end: int) -> None:
    config = hf.CLIPTextConfig(**TEXT | {"eos_token_id": end}, projection_dim=5)
    model = require_equal(publish(getattr(hf, kind)(config)))
    assert model.config.vision is None
    assert model.config.width == (5 if "Projection" in kind else 0)


@pytest.mark.parametrize("size", [(12, 12), (16, 4)])
def test_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    folder = publish(both(hf, {}, {}))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    texts = torch.tensor([[3, 4, 29], [5, 29, 1], [29, 29, 29]])
    with torch.no_grad(), Float64Mode():
        peer = hf.CLIPModel.from_pretrained(folder, dtype=torch.float64)
        theirs = peer(texts, image, interpolate_pos_encoding=True)
    with torch.no_grad():
        model = load(folder, dtype=torch.float64)
        torch.testing.assert_close(model(image, texts), theirs.logits_per_image, rtol=1e-10, atol=1e-10)


def test_padding_as_tokenizers_make_it(hf: Any, publish: Any) -> None:
    """Theirs with its attention mask, ours without: what comes after the end is not seen."""
    folder = publish(both(hf, {}, {}))
    texts = torch.tensor([[28, 4, 5, 29], [28, 29, 1, 1]])
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.no_grad():
        theirs = hf.CLIPModel.from_pretrained(folder).get_text_features(texts, real).pooler_output
        torch.testing.assert_close(load(folder).texts(texts), theirs, rtol=1e-4, atol=1e-5)


def test_old_files(hf: Any, publish: Any, tmp_path: Any) -> None:
    """position_ids among the weights, and a tower's config twice, of which the `…_dict` counts with its defaults."""
    folder = publish(both(hf, {}, {}))
    plain = load(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {"text_model.embeddings.position_ids": torch.arange(9)[None]}
    tensors |= {"vision_model.embeddings.position_ids": torch.arange(5)[None]}
    save_file(tensors, folder / "model.safetensors")
    raw = json.loads((folder / "config.json").read_text())
    raw |= {"text_config_dict": TEXT, "vision_config_dict": VISION}
    raw["text_config"] = raw["text_config"] | {"eos_token_id": 2, "hidden_act": "relu"}
    (folder / "config.json").write_text(json.dumps(raw))
    assert load(folder).config == plain.config
    with torch.no_grad():
        again = load(save(load(folder), tmp_path / "saved"))
        there = again.state_dict()
        assert all(torch.equal(weight, there[name]) for name, weight in plain.state_dict().items())
        image, texts = torch.ones(1, 3, 8, 8), torch.tensor([[4, 29]])
        # where weights lie in memory decides on some processors which kernel runs, and so the last bit
        torch.testing.assert_close(again(image, texts), plain(image, texts))


def test_a_tower_under_its_old_name(hf: Any, publish: Any) -> None:
    """Earlier files of a tower have its name before all others."""
    folder = publish(hf.CLIPTextModel(hf.CLIPTextConfig(**TEXT)))
    plain = load(folder)
    tensors = {f"text_model.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    ids = torch.tensor([[4, 29]])
    assert torch.equal(load(folder).texts(ids), plain.texts(ids))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["CLIPForImageClassification"]}, "CLIPForImageClassification"),
        ({"vision_config": VISION | {"image_size": [8, 16]}}, "square"),
        ({"vision_config": 3}, "vision_config is 3"),
        ({"text_config": TEXT | {"num_hidden_layers": 10**9}}, "num_hidden_layers"),
        ({"projection_dim": 0}, "projection_dim"),
    ],
)
def test_what_is_not_supported_is_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(both(hf, {}, {}))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | changes))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def test_a_missing_projection_is_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.CLIPTextModelWithProjection(hf.CLIPTextConfig(**TEXT, projection_dim=5)))
    tensors = load_file(folder / "model.safetensors")
    del tensors["text_projection.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"text_projection\.weight is missing"):
        load(folder)
