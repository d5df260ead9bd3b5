"""Glassformer, the see-through Transformer.

Names load when first used, so that `import glassformer` imports neither torch nor anything else that is slow.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PACKAGES = ("core", "worked", "nn", "models", "checkpoints", "decoding", "lens", "figures", "runtime", "tasks")
# name -> the module it lives in
_NAMES: dict[str, str] = {
    "GlassError": "errors",
    "classify": "tasks",
    "edit": "lens",
    "embed": "tasks",
    "generate": "tasks",
    "load": "checkpoints",
    "open_model": "tasks",
    "save": "checkpoints",
    "trace": "lens",
    "transcribe": "tasks",
    "translate": "tasks",
}

__all__ = ["__version__", *_PACKAGES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
