"""Where a model of pictures looks: what its answer takes from each patch, by flow and by head."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from glassformer import figures, lens
from glassformer.app.report.parts import picture, says, section
from glassformer.app.report.sections import last_of
from glassformer.app.report.seen import Seen
from glassformer.lens import Run
from glassformer.models import Hybrid, ViT

Picturing = ViT | Hybrid


def overlays(model: Picturing, run: Run, seen: Seen, out: Tensor) -> str:
    """Rollout, what mattered to the answer, and each head of the last layer."""
    assert seen.grid is not None
    assert seen.picture is not None
    asks = pooled(model, seen)
    whole = {"rollout": lens.cls_to_patches(asks @ lens.rollout(run), seen.grid)[0]}
    if model.config.classes:
        found = mattered(model, seen, int(out[0].argmax()), asks)
        if float(found.max()) > 0:
            whole["by gradient"] = found
    scaled = torch.stack([part / part.max() for part in whole.values()])
    who = {"first": "CLS", "mean": "the mean of all tokens", "both": "CLS and the mean", "attention": "the pool"}
    name = who[model.config.pool]
    first = figures.image_overlay(seen.picture, scaled, list(whole), title=f"{name} through all layers")
    path = last_of(run, "encoder")
    each = lens.cls_to_patches(asks @ run[f"{path}.A"][0], seen.grid)
    second = figures.image_overlay(seen.picture, each, title=f"{name} in {path}")
    text = "Patches are lit by their weight; the outline holds half of it."
    return section(
        "Where it looks",
        says(text + (" By gradient: what mattered to the class." if "by gradient" in whole else "")),
        picture(first, f"Patches that {name} takes from through all layers", photo=True),
        picture(second, f"Patches that {name} takes from in each head of {path}", photo=True),
    )


def mattered(model: Picturing, seen: Seen, label: int, asks: Tensor) -> Tensor:
    """(rows, columns): what each patch did for a class, by the pool's weights times the gradient rollout."""
    assert seen.grid is not None
    R = lens.gradient_rollout(model, lambda: model(seen.inputs[0])[:, label])
    return lens.cls_to_patches(asks @ R, seen.grid)[0]


def pooled(model: Picturing, seen: Seen) -> Tensor:
    """(1, 1, tokens): how much of the answer comes from each token of the last layer."""
    assert seen.grid is not None
    if isinstance(model, Hybrid) and model.config.pool == "attention":
        with torch.no_grad(), lens.trace(model, "pool.a") as run:
            model(*seen.inputs)
        return run["pool.a"][:, None]
    n = math.prod(seen.grid)
    if isinstance(model, Hybrid):
        return torch.full((1, 1, n), 1 / n)
    before = model.config.prefix + model.config.registers
    first, mean = torch.zeros(before + n), torch.zeros(before + n)
    first[0], mean[before:] = 1.0, 1 / n
    how = {"first": first, "mean": mean, "both": (first + mean) / 2}
    return how[model.config.pool][None, None]
