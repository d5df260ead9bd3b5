"""One experiment for each claim that is taught about attention: measured, judged by a stated rule, drawn.

    from glassformer.lab import run
    outcome = run(7, seed=1, alpha=3.0)
    outcome.verdict, outcome.result

The names below load when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

# name -> the module it lives in
_NAMES = {
    "Experiment": "experiment",
    "Outcome": "running",
    "Parameter": "experiment",
    "Verdict": "experiment",
    "claim": "claims",
    "numbers": "claims",
    "report": "page",
    "run": "running",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
