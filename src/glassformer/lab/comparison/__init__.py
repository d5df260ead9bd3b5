"""Transformer, RNN, LSTM, GRU, CNN and MLP side by side, on matched budgets of parameters, with intervals over seeds.

    from glassformer.lab.comparison import carry_out, load, quick
    results = load(carry_out(quick(), Path("results")))

The names below load when first used.
"""

from __future__ import annotations

from glassformer.names import on_first_use

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
    "reopen": "running",
    "report": "page",
    "units": "plan",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
