"""Which patches a model of pictures looked at to name a class."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

from glassformer import figures
from glassformer.app.report.inputs import see
from glassformer.app.report.looks import mattered, pooled
from glassformer.errors import InputError
from glassformer.models import Hybrid, ViT
from glassformer.tasks.classify import labels_of


def looked_at(model: nn.Module, path: Path) -> Figure:
    """The picture, and the same lit where what mattered to its likeliest class was seen."""
    if not isinstance(model, ViT | Hybrid) or not model.config.classes:
        fact = f"a {type(model).__name__} does not look at patches to name a class"
        raise InputError(fact, "leave out --look, or take a vision Transformer")
    seen = see(model, [str(path)])
    assert seen.picture is not None
    with torch.no_grad():
        best = int(model(seen.inputs[0])[0].argmax())
    weights = mattered(model, seen, best, pooled(model, seen))
    name = labels_of(model, model.config.classes)[best]
    return figures.image_overlay(seen.picture, weights / weights.max(), title=f"what mattered to {name!r}")
