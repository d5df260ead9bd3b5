"""ViT against Hugging Face."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import ViT

SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
SMALL |= {"image_size": 8, "patch_size": 4}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ViTForImageClassification", {"num_labels": 5}),
        ("ViTForImageClassification", {"qkv_bias": False, "layer_norm_eps": 0.1, "hidden_act": "gelu_new"}),
        ("ViTForImageClassification", {"hidden_size": 15, "image_size": (8, 12), "num_channels": 1}),
        ("ViTForImageClassification", {"patch_size": (4, 2), "hidden_act": "quick_gelu", "num_attention_heads": 1}),
        ("ViTModel", {"pooler_output_size": 7, "num_hidden_layers": 1}),
        ("ViTModel", {"hidden_act": "relu"}),
    ],
)
def test_vit_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.ViTConfig(**SMALL | changes))))
    assert isinstance(model, ViT)
    assert model.config.classes == (0 if kind == "ViTModel" else changes.get("num_labels", 2))
    assert model.config.hidden == (changes.get("pooler_output_size", 12) if kind == "ViTModel" else 0)


def test_without_a_pooler(hf: Any, publish: Any) -> None:
    """What comes out is the first token after the last norm."""
    folder = publish(hf.ViTModel(hf.ViTConfig(**SMALL), add_pooling_layer=False))
    image = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        theirs = hf.ViTModel.from_pretrained(folder, add_pooling_layer=False)(image).last_hidden_state
        torch.testing.assert_close(load(folder).features(image), theirs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(load(folder)(image), theirs[:, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(12, 12), (16, 8), (4, 16), (4, 4)])
def test_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    """Bicubic, without antialiasing; 4×16 has as many patches as 8×8, and is resized all the same."""
    kind = hf.ViTForImageClassification
    folder = publish(kind(hf.ViTConfig(**SMALL)))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = kind.from_pretrained(folder, dtype=torch.float64)(image, interpolate_pos_encoding=True).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(load(folder)(image.float()), theirs.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pooler_act": "relu"}, "pooler_act"),
        ({"image_size": 9}, "9×9 is not tiled"),
        ({"image_size": [8, 8, 8]}, "image_size"),
        ({"patch_size": 0}, "patch_size"),
        ({"architectures": ["ViTForMaskedImageModeling"]}, "ViTForMaskedImageModeling"),
        ({"num_attention_heads": 5}, "does not split into 5 heads"),
        ({"num_channels": 10**9}, "num_channels"),
    ],
)
def test_what_is_not_supported_is_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(hf.ViTModel(hf.ViTConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | changes))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def test_a_missing_head_and_a_larger_image_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.ViTForImageClassification(hf.ViTConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"image_size": 16}))
    with pytest.raises(CheckpointError, match=r"position_embeddings is 1×5×12, and config\.json asks for 1×17×12"):
        load(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("classifier")}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"classifier\.weight is not in the file"):
        load(folder)
