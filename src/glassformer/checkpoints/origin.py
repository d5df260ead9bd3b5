"""Where a model came from, and what came with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Origin:
    """`model.origin` of a model that was loaded. `names`: the family's usual name of each weight → the file's own."""

    folder: Path
    family: str = ""  # empty: our own
    raw: Mapping[str, Any] = field(default_factory=dict)  # config.json
    generation: Mapping[str, Any] = field(default_factory=dict)  # generation_config.json
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokenizer(self) -> Path | None:
        """tokenizer.json, if there is one."""
        return self.file("tokenizer.json")

    def file(self, name: str) -> Path | None:
        """A file that came with the weights, if it did."""
        path = self.folder / name
        return path if path.is_file() else None


def origin_of(model: nn.Module) -> Origin | None:
    """None for a model that was built here and not loaded."""
    found = model.__dict__.get("origin")
    return found if isinstance(found, Origin) else None


def with_origin(model: nn.Module, origin: Origin) -> nn.Module:
    """The model, which from now on knows where it came from."""
    model.__dict__["origin"] = origin  # past torch's own bookkeeping: it is neither a weight nor a module
    return model
