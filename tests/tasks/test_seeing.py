from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from glassformer.errors import InputError, ShapeError
from glassformer.models import (
    MLP,
    ConvNet2d,
    Decoder,
    Frames,
    Hybrid,
    ImageInput,
    Recurrent,
    TokenWindow,
    ViT,
    convolutional,
    decoder,
    hybrid,
    mlp,
    recurrent,
    vit,
)
from glassformer.tasks.seeing import classes_of, logits_of, rows_of, sees

SEEING: list[nn.Module] = [
    ViT(vit.tiny()),
    Hybrid(hybrid.tiny()),
    ConvNet2d(convolutional.tiny(classes=5)),
    MLP(mlp.tiny(ImageInput(channels=3, height=8, width=8), 5)),
    Recurrent(recurrent.tiny(Frames(features=24), 5, "mean")),
]
BLIND: list[nn.Module] = [
    ViT(replace(vit.tiny(), classes=0)),
    MLP(mlp.tiny(TokenWindow(vocabulary=9, length=4, width=2), 5)),
    Recurrent(recurrent.tiny(Frames(features=24), 5)),  # answers at each position
    Decoder(decoder.tiny()),
]


@pytest.mark.parametrize("model", SEEING, ids=lambda model: type(model).__name__)
def test_models_that_name_pictures_are_called_alike(model: nn.Module) -> None:
    assert sees(model)
    assert classes_of(model) == 5
    assert logits_of(model.eval(), torch.rand(2, 3, 8, 8)).shape == (2, 5)


@pytest.mark.parametrize("model", BLIND, ids=lambda model: type(model).__name__)
def test_others_are_refused(model: nn.Module) -> None:
    assert not sees(model)
    with pytest.raises(InputError, match="names no pictures"):
        classes_of(model)


def test_rows_of_another_width_are_refused() -> None:
    model = SEEING[-1]
    assert isinstance(model, Recurrent)
    assert rows_of(torch.rand(2, 3, 5, 8), model).shape == (2, 5, 24)
    with pytest.raises(ShapeError, match="3 × 9 numbers for a network that reads 24"):
        rows_of(torch.rand(2, 3, 8, 9), model)
