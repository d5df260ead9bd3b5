"""The image patches a model's answer depends on: by rollout, by gradient, and by head."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from glassformer import figures, lens
from glassformer.errors import InputError
from glassformer.lens import Run
from glassformer.models.protocols import Classifier, PatchModel
from glassformer.pipelines.classify import labels_of
from glassformer.report.attention import last_of
from glassformer.report.inputs import Inputs, prepare_inputs
from glassformer.report.views import Block, Paragraph, Section, embed_figure


def overlays(model: nn.Module, run: Run, inputs: Inputs) -> list[Section]:
    """Section with the rollout, the gradient rollout of the predicted class, and each head of the last layer."""
    if inputs.grid is None or inputs.image is None or not isinstance(model, PatchModel):
        return []
    pooled = model.pool_weights(inputs.tensors[0])
    name = _pooled_name(model, pooled)
    whole = {"rollout": lens.cls_to_patches(pooled[:, None] @ lens.rollout(run), inputs.grid)[0]}
    if isinstance(model, Classifier) and model.classes:
        found = patch_importance(model, inputs, int(model.class_logits(inputs.tensors[0])[0].argmax()), pooled)
        if float(found.max()) > 0:
            whole["gradient rollout"] = found
    scaled = torch.stack([part / part.max() for part in whole.values()])
    first = figures.image_overlay(inputs.image, scaled, list(whole), title=f"{name} through all layers")
    path = last_of(run, "encoder")
    each = lens.cls_to_patches(pooled[:, None] @ run[f"{path}.A"][0], inputs.grid)
    second = figures.image_overlay(inputs.image, each, title=f"{name} in {path}")
    text = "Patches are brighter the larger their weight; the outline encloses half of the total weight."
    if "gradient rollout" in whole:
        text += " The gradient rollout shows what mattered to the predicted class."
    blocks: list[Block] = [
        Paragraph(text),
        embed_figure(first, f"Patches that {name} attends to through all layers", photo=True),
        embed_figure(second, f"Patches that {name} attends to in each head of {path}", photo=True),
    ]
    return [Section("Patches", blocks)]


def _pooled_name(model: PatchModel, pooled: Tensor) -> str:
    """Return the name of the pooled position: CLS if the answer is computed only from it."""
    best = int(pooled[0].argmax())
    alone = float(pooled[0, best]) == 1 and best < len(model.prefix_names)
    return model.prefix_names[best] if alone else "the pooled vector"


def patch_importance(model: nn.Module, inputs: Inputs, label: int, pooled: Tensor) -> Tensor:
    """Return each patch's contribution to a class (rows, columns): pooling weights times the gradient rollout."""
    assert inputs.grid is not None
    assert isinstance(model, Classifier)
    R = lens.gradient_rollout(model, lambda: model.class_logits(inputs.tensors[0])[:, label])
    return lens.cls_to_patches(pooled[:, None] @ R, inputs.grid)[0]


def important_patches(model: nn.Module, path: str | Path) -> Figure:
    """Draw the image beside the patches that are important for its most likely class."""
    if not isinstance(model, PatchModel) or not isinstance(model, Classifier) or not model.classes:
        fact = f"a {type(model).__name__} does not classify images by patches"
        raise InputError(fact, "leave out --figure, or use a vision Transformer")
    inputs = prepare_inputs(model, [path])
    assert inputs.image is not None
    with torch.no_grad():
        best = int(model.class_logits(inputs.tensors[0])[0].argmax())
        weights = patch_importance(model, inputs, best, model.pool_weights(inputs.tensors[0]))
    name = labels_of(model)[best]
    return figures.image_overlay(inputs.image, weights / weights.max(), title=f"patches that mattered to {name!r}")
