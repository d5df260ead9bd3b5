"""Save a trained text model together with its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.checkpoints import FAMILIES, Origin, origin_of, save, save_published
from glassformer.checkpoints.origin import with_origin
from glassformer.data import bpe


def save_text_model(
    model: nn.Module,
    folder: str | Path,
    tokenizer: Any,
    *,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    half: bool = False,
) -> Path:
    """Save weights, tokenizer.json, and the entries of config.json and generation_config.json of a published model.

    A model of a published family is saved in its own layout instead, with the files that came with it, so that
    `transformers` loads it. `half` stores float16 at half the size; `load` converts back to float32. The model itself
    is not modified.
    """
    folder, before = Path(folder), origin_of(model)
    if before is not None and before.family in FAMILIES:
        return save_published(model, folder)
    bpe.save(tokenizer, folder)
    copy = deepcopy(model)
    copy = copy.half() if half else copy
    origin = Origin(folder=folder, raw=dict(config or {}), generation=dict(generation or {}))
    return save(with_origin(copy, origin), folder)
