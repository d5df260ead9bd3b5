"""Facts about a model folder: family, sizes, tokenizer, and what the model can be used for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import nn

from glassformer.checkpoints.loading import load_folder
from glassformer.checkpoints.origin import origin_of
from glassformer.models.protocols import inputs_of, sizes_of, verbs

WORDS = ("tokenizer.json", "source.spm", "spiece.model", "tokenizer.model", "vocab.json", "vocab.txt")


class ModelInfo(NamedTuple):
    """Facts about a model by name, in display order."""

    folder: Path | None
    facts: dict[str, str]
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        rows = {**self.facts, "commands": ", ".join(self.verbs) or "none: trace it, or use it in Python"}
        wide = max(map(len, rows))
        return "\n".join(f"{name:<{wide}}  {value}" for name, value in rows.items())


def info(folder: str | Path) -> ModelInfo:
    """Return the facts about a model folder, without reading its weights."""
    return info_of(load_folder(folder, check=False))


def info_of(model: nn.Module) -> ModelInfo:
    """Return the facts about a model; one that was not loaded from a folder has neither a family nor a tokenizer."""
    origin = origin_of(model)
    numbers = sum(weight.numel() for weight in model.parameters())
    classes = ", ".join(map(str, origin.raw.get("architectures") or [])) if origin is not None else ""
    family = (origin.family if origin is not None else "") or "Glassformer"
    facts = {
        "family": f"{family}{f' ({classes})' if classes else ''}",
        "model": type(model).__name__,
        "parameters": f"{numbers:,}",
        **sizes_of(model),
    }
    words = [name for name in WORDS if origin is not None and origin.file(name) is not None]
    facts["tokenizer"] = words[0] if words else "none"
    return ModelInfo(None if origin is None else origin.folder, facts, verbs_of(model, bool(words)))


def verbs_of(model: nn.Module, words: bool) -> tuple[str, ...]:
    """Return the verbs that apply to a model; one that reads or writes text needs a tokenizer beside its weights."""
    return verbs(model) if words or "text" not in inputs_of(model) else ()
