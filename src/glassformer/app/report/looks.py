"""Where a model of pictures looks: CLS over the patches, by flow and by head."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer import figures, lens
from glassformer.app.report.parts import picture, says, section
from glassformer.app.report.sections import last_of
from glassformer.app.report.seen import Seen
from glassformer.lens import Run
from glassformer.models import ViT


def overlays(model: ViT, run: Run, seen: Seen, out: Tensor) -> str:
    """Rollout, what mattered to the answer, and each head of the last layer."""
    assert seen.grid is not None
    assert seen.picture is not None
    if not model.config.prefix:
        return ""
    whole = {"rollout": lens.cls_to_patches(lens.rollout(run), seen.grid)[0]}
    if model.config.classes:
        best = int(out[0].argmax())
        R = lens.gradient_rollout(model, lambda: model(seen.inputs[0])[:, best])
        mattered = lens.cls_to_patches(R, seen.grid)[0]
        if float(mattered.max()) > 0:
            whole["by gradient"] = mattered
    scaled = torch.stack([part / part.max() for part in whole.values()])
    first = figures.image_overlay(seen.picture, scaled, list(whole), title="CLS through all layers")
    path = last_of(run, "encoder")
    each = lens.cls_to_patches(run.part(f"{path}.A", rows=[0])[0], seen.grid)
    second = figures.image_overlay(seen.picture, each, title=f"CLS in {path}")
    return section(
        "Where it looks",
        says("Patches are lit by their weight; the outline holds half of it. By gradient: what mattered to the class."),
        picture(first, "Patches that CLS looks at through all layers", photo=True),
        picture(second, f"Patches that CLS looks at in each head of {path}", photo=True),
    )
