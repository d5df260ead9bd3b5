"""DeiT against Hugging Face."""

from __future__ import annotations

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
TEACHER = "DeiTForImageClassificationWithTeacher"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (TEACHER, {"num_labels": 5, "layer_norm_eps": 0.1}),
        (TEACHER, {"image_size": (8, 12), "hidden_size": 15, "qkv_bias": False}),
        ("DeiTForImageClassification", {"num_labels": 3, "hidden_act": "gelu_new"}),
        ("DeiTModel", {"num_attention_heads": 4, "pooler_output_size": 9}),
    ],
)
def test_deit_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.DeiTConfig(**SMALL | changes))))
    assert isinstance(model, ViT)
    assert model.config.prefix == 2
    assert model.config.teacher == (kind == TEACHER)


@pytest.mark.parametrize("size", [(12, 12), (16, 4)])
def test_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    kind = hf.DeiTForImageClassificationWithTeacher
    folder = publish(kind(hf.DeiTConfig(**SMALL)))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = kind.from_pretrained(folder, dtype=torch.float64)(image, interpolate_pos_encoding=True).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("left_out", "named"),
    [("cls_classifier.weight", "cls_classifier"), ("deit.embeddings.distillation_token", "distillation_token")],
)
def test_what_is_missing_is_named(hf: Any, publish: Any, left_out: str, named: str) -> None:
    folder = publish(hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    del tensors[left_out]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises((CheckpointError, ConfigError), match=named):
        load(folder)
