"""Which patches a model of pictures looked at to name a class: the pool's weights times the gradient rollout."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from glassformer import figures, lens
from glassformer.app.report.inputs import see
from glassformer.errors import InputError
from glassformer.models import Hybrid, ViT
from glassformer.tasks.classify import labels_of


def looked_at(model: nn.Module, path: Path) -> Figure:
    """The picture, and the same lit where what mattered to its likeliest class was seen."""
    if not isinstance(model, ViT | Hybrid) or not model.config.classes:
        fact = f"a {type(model).__name__} does not look at patches to name a class"
        raise InputError(fact, "leave out --look, or take a vision Transformer")
    seen = see(model, [str(path)])
    assert seen.grid is not None
    assert seen.picture is not None
    image = seen.inputs[0]
    with torch.no_grad():
        logits = model(image)
    best = int(logits[0].argmax())
    R = lens.gradient_rollout(model, lambda: model(image)[:, best])
    weights = lens.cls_to_patches(_pooled(model, image) @ R, seen.grid)[0]
    name = labels_of(model, model.config.classes)[best]
    return figures.image_overlay(seen.picture, weights / weights.max(), title=f"what mattered to {name!r}")


def _pooled(model: ViT | Hybrid, image: Tensor) -> Tensor:
    """(1, 1, tokens): how much of the answer comes from each token of the last layer."""
    if isinstance(model, Hybrid) and model.config.pool == "attention":
        with torch.no_grad(), lens.trace(model, "pool.a") as run:
            model(image)
        return run["pool.a"][:, None]
    with torch.no_grad():
        n = model.features(image).shape[1]
    if isinstance(model, Hybrid):
        return torch.full((1, 1, n), 1 / n)
    before = model.config.prefix + model.config.registers
    first, mean = torch.zeros(n), torch.zeros(n)
    first[0], mean[before:] = 1.0, 1 / (n - before)
    how = {"first": first, "mean": mean, "both": (first + mean) / 2}
    return how[model.config.pool][None, None]
