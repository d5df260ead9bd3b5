"""The patches that mattered, as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from glassformer.app.looked import looked_at
from glassformer.errors import InputError
from glassformer.models import ConvNet2d, Hybrid, ViT, convolutional, hybrid, vit


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    noise = torch.randint(0, 255, (40, 40, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("model", [ViT(vit.tiny()), Hybrid(hybrid.tiny())])
def test_a_picture_of_what_mattered(model: torch.nn.Module, photo: Path) -> None:
    assert looked_at(model.eval(), photo).axes


def test_a_convolution_has_no_patches(photo: Path) -> None:
    with pytest.raises(InputError, match="a ConvNet2d does not look at patches"):
        looked_at(ConvNet2d(convolutional.tiny()), photo)
