"""DINOv2, with and without registers, against Hugging Face."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.errors import ConfigError
from glassformer.models import ViT

SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "mlp_ratio": 2}
SMALL |= {"image_size": 8, "patch_size": 4}


def build(hf: Any, kind: str, changes: dict[str, Any]) -> Any:
    config = hf.Dinov2WithRegistersConfig if "Registers" in kind else hf.Dinov2Config
    return getattr(hf, kind)(config(**SMALL | changes))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Dinov2Model", {"layer_norm_eps": 0.1, "mlp_ratio": 3}),
        ("Dinov2Model", {"use_swiglu_ffn": True, "use_mask_token": False}),
        ("Dinov2ForImageClassification", {"num_labels": 5, "hidden_size": 15, "qkv_bias": False}),
        ("Dinov2ForImageClassification", {"use_swiglu_ffn": True, "num_hidden_layers": 1}),
        ("Dinov2WithRegistersModel", {"num_register_tokens": 3, "hidden_act": "gelu_new"}),
        ("Dinov2WithRegistersForImageClassification", {"use_swiglu_ffn": True, "num_attention_heads": 2}),
    ],
)
def test_dinov2_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(build(hf, kind, changes)))
    assert isinstance(model, ViT)
    assert model.config.pool == ("both" if "Classification" in kind else "first")
    assert model.config.registers == (changes.get("num_register_tokens", 4) if "Registers" in kind else 0)
    assert model.config.resize.antialias == ("Registers" in kind)
    assert model.config.masked == changes.get("use_mask_token", True)


@pytest.mark.parametrize("kind", ["Dinov2ForImageClassification", "Dinov2WithRegistersForImageClassification"])
@pytest.mark.parametrize("size", [(12, 12), (16, 8), (4, 16), (4, 4)])
def test_other_sizes(hf: Any, publish: Any, kind: str, size: tuple[int, int]) -> None:
    """Bicubic, with antialiasing only where there are registers."""
    folder = publish(build(hf, kind, {}))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = getattr(hf, kind).from_pretrained(folder, dtype=torch.float64)(image).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(load(folder)(image.float()), theirs.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Dinov2Model", "Dinov2WithRegistersModel"])
def test_hidden_patches(hf: Any, publish: Any, kind: str) -> None:
    folder = publish(build(hf, kind, {}))
    image = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    hidden = torch.tensor([[True, False, False, True], [False, False, True, False]])
    with torch.no_grad():
        theirs = getattr(hf, kind).from_pretrained(folder)(image, bool_masked_pos=hidden).last_hidden_state
        torch.testing.assert_close(load(folder).features(image, hidden), theirs, rtol=1e-4, atol=1e-4)


def test_what_is_not_supported_is_named(hf: Any, publish: Any) -> None:
    folder = publish(build(hf, "Dinov2ForImageClassification", {}))
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("classifier")}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"classifier\.weight is not in the file"):
        load(folder)
    folder = publish(build(hf, "Dinov2Model", {"image_size": (8, 16)}), "wide")
    with pytest.raises(ConfigError, match="square"):
        load(folder)
