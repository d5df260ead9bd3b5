"""Transformer, RNN, LSTM, GRU, CNN and MLP side by side, on matched budgets of parameters, with intervals over seeds.

    from glassformer.lab.comparison import carry_out, load, quick
    results = load(carry_out(quick(), Path("results")))

The names below load when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

# name -> the module it lives in
_NAMES = {
    "ARCHITECTURES": "nets",
    "Estimate": "results",
    "Plan": "plan",
    "Results": "results",
    "Step": "running",
    "Unit": "plan",
    "carry_out": "running",
    "estimate": "results",
    "full": "plan",
    "load": "results",
    "matched": "nets",
    "quick": "plan",
    "report": "page",
    "units": "plan",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
