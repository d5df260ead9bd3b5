"""Glassformer, the see-through Transformer.

Names load when first used, so that `import glassformer` imports neither torch nor anything else that is slow.
"""

from __future__ import annotations

from glassformer.names import on_first_use

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
__getattr__ = on_first_use(__name__, _NAMES | dict.fromkeys(_PACKAGES, ""))


def __dir__() -> list[str]:
    return sorted(__all__)
