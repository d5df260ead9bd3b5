"""A trained model as a folder that `load` and the verbs of `tasks` can use, its weights as they are or halved."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoints import Origin, save
from glassformer.checkpoints.origin import with_origin
from glassformer.tasks.data import bpe


def save_words(
    model: nn.Module,
    folder: str | Path,
    tokenizer: Any,
    *,
    raw: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    half: bool = False,
) -> Path:
    """Weights, tokenizer.json, and what a published folder says in config.json and generation_config.json.

    `half`: float16 on disk, two bytes for four; `load` gives float32 again. The model itself stays as it is.
    """
    folder = Path(folder)
    bpe.save(tokenizer, folder)
    kept = deepcopy(model)
    kept = kept.half() if half else kept
    origin = Origin(folder=folder, raw=dict(raw or {}), generation=dict(generation or {}))
    return save(with_origin(kept, origin), folder)


def pad_rows(rows: list[list[int]], pad: int) -> Tensor:
    """Token ids (n, longest), padding after each."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
