"""The supported families of published models, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.checkpoints.architecture import parsed
from glassformer.checkpoints.families.bert import BERT
from glassformer.checkpoints.families.clip import CLIP, CLIP_TEXT, CLIP_VISION
from glassformer.checkpoints.families.deit import DEIT
from glassformer.checkpoints.families.dinov2 import DINOV2, DINOV2_REGISTERS
from glassformer.checkpoints.families.gpt2 import GPT2
from glassformer.checkpoints.families.ijepa import IJEPA
from glassformer.checkpoints.families.llama import LLAMA
from glassformer.checkpoints.families.marian import MARIAN
from glassformer.checkpoints.families.roberta import ROBERTA
from glassformer.checkpoints.families.t5 import T5
from glassformer.checkpoints.families.timm import TIMM, TIMM_DISTILLED
from glassformer.checkpoints.families.vit import VIT
from glassformer.checkpoints.families.whisper import WHISPER
from glassformer.checkpoints.family import Family
from glassformer.errors import ConfigError

TEXT = (BERT, GPT2, LLAMA, MARIAN, ROBERTA, T5)
IMAGES = (DEIT, DINOV2, DINOV2_REGISTERS, IJEPA, TIMM, TIMM_DISTILLED, VIT)
TOWERS = (CLIP, CLIP_TEXT, CLIP_VISION)
FAMILIES: dict[str, Family] = {family.name: family for family in (*TEXT, *IMAGES, *TOWERS, WHISPER)}


def recognise(raw: Mapping[str, Any]) -> Family:
    """Return the family named by model_type in config.json; timm's config names an architecture instead."""
    if "architecture" in raw and "model_type" not in raw:
        return TIMM_DISTILLED if parsed(raw["architecture"])["distilled"] else TIMM
    for family in FAMILIES.values():
        if raw.get("model_type") in family.types:
            return family
    known = ", ".join(sorted(name for family in FAMILIES.values() for name in family.types))
    raise ConfigError(f"model_type is {str(raw.get('model_type'))[:60]!r} in config.json", f"supported: {known}")
