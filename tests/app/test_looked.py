"""The patches that mattered: what each way of pooling takes of every token, and a picture of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from glassformer.app.looked import _pooled, looked_at
from glassformer.errors import InputError
from glassformer.models import ConvNet2d, Hybrid, ViT, convolutional, hybrid, vit


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    noise = torch.randint(0, 255, (40, 40, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("pool", ["first", "mean", "both"])
def test_how_a_vit_pools(pool: str, photo: Path) -> None:
    model = ViT(replace(vit.tiny(), pool=pool)).eval()
    image = torch.zeros(1, 3, 8, 8)
    weights = _pooled(model, image)
    features = model.features(image)
    expected = {"first": features[:, 0], "mean": features[:, 1:].mean(1)}
    expected["both"] = (expected["first"] + expected["mean"]) / 2
    torch.testing.assert_close((weights @ features)[:, 0], expected[pool])
    assert looked_at(model, photo).axes


@pytest.mark.parametrize("pool", ["attention", "mean"])
def test_how_a_hybrid_pools(pool: str) -> None:
    model = Hybrid(replace(hybrid.tiny(), pool=pool)).eval()
    image = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    features = model.features(image)
    torch.testing.assert_close((_pooled(model, image) @ features)[:, 0], model.pool(features))


def test_a_convolution_has_no_patches(photo: Path) -> None:
    with pytest.raises(InputError, match="a ConvNet2d does not look at patches"):
        looked_at(ConvNet2d(convolutional.tiny()), photo)
