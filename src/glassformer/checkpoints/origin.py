"""The origin of a loaded model: its folder and the files that came with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of a loaded model (`model.origin`). `names` maps each weight's usual name to its name in the file."""

    folder: Path
    family: str = ""  # empty for the native format
    raw: Mapping[str, Any] = field(default_factory=dict)  # config.json
    generation: Mapping[str, Any] = field(default_factory=dict)  # generation_config.json
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokenizer(self) -> Path | None:
        """The path of tokenizer.json, or None."""
        return self.file("tokenizer.json")

    def file(self, name: str) -> Path | None:
        """Return the path of a file that came with the weights, or None."""
        path = self.folder / name
        return path if path.is_file() else None


def origin_of(model: nn.Module) -> Origin | None:
    """Return the origin of a model, or None if it was built and not loaded."""
    found = model.__dict__.get("origin")
    return found if isinstance(found, Origin) else None


def with_origin(model: nn.Module, origin: Origin) -> nn.Module:
    """Attach an origin to a model and return the model."""
    model.__dict__["origin"] = origin  # bypasses nn.Module.__setattr__: it is neither a parameter nor a module
    return model


def reads_pairs(model: nn.Module) -> bool:
    """Return whether config.json says that the model was trained on pairs of texts (`text_pair`)."""
    origin = origin_of(model)
    return origin is not None and origin.raw.get("text_pair") is True
