"""DeiT (Touvron 2020): ViT with a distillation token; both heads averaged, or the first alone."""

from __future__ import annotations

from dataclasses import replace

from glassformer.checkpoints.families import vit
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.layouts import RowRange
from glassformer.checkpoints.rules import Rule, linear
from glassformer.models.vit import ViT, ViTConfig

TEACHER = "DeiTForImageClassificationWithTeacher"
TOKENS = ("deit.embeddings.cls_token", "deit.embeddings.distillation_token")


def config(f: Fields) -> ViTConfig:
    taught = f.architecture == TEACHER
    head = "cls_classifier.weight" if taught else "classifier.weight"
    plain = vit.config(replace(f, raw={**f.raw, "architectures": []}), prefix=2, root="deit.")
    return replace(plain, classes=vit.classes(f, head), teacher=taught)


DEIT = Family(
    name="deit",
    types=("deit",),
    architectures=("DeiTForImageClassification", TEACHER, "DeiTModel"),
    model=ViT,
    config=config,
    rules=(
        Rule(("prefix",), TOKENS, RowRange(lambda c: (1, 1, c.width))),
        *linear("head", "classifier|cls_classifier"),
        *vit.stack_rules("deit."),
        *vit.block_rules("deit."),
        *linear("teacher_head", "distillation_classifier"),
    ),
    prefix="deit.",
    quantities=(
        *vit.quantities("deit.", "layers"),
        Quantity("head", "cls_classifier"),
        Quantity("teacher_head", "distillation_classifier"),
        Quantity("", "", "logits"),
    ),
)
