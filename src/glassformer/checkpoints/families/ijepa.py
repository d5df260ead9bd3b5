"""I-JEPA (Assran 2023) in Hugging Face's layout: a ViT without CLS that classifies the mean of the patches."""

from __future__ import annotations

from functools import partial

from glassformer.checkpoints.families import vit
from glassformer.checkpoints.family import Family
from glassformer.models.vit import ViT

IJEPA = Family(
    name="ijepa",
    types=("ijepa",),
    architectures=("IJepaForImageClassification", "IJepaModel"),
    model=ViT,
    config=partial(vit.config, prefix=0, root="ijepa.", pool="mean"),
    describe=partial(vit.describe, name="IJepa"),
    rules=(*vit.stack_rules("ijepa."), *vit.block_rules("ijepa.")),
    prefix="ijepa.",
    quantities=vit.quantities("ijepa.", "layers"),
)
