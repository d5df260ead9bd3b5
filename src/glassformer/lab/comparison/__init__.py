"""Comparison of Transformer, RNN, LSTM, GRU, CNN and MLP at equal size: cost, reach, data, streaming, inductive bias.

    from glassformer.lab.comparison import carry_out, load_results, quick
    results = load_results(carry_out(quick(), Path("results")))

Names are imported lazily.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

# name -> module that defines it
_NAMES = {
    "ARCHITECTURES": "networks",
    "ComparisonPlan": "plan",
    "Estimate": "results",
    "Results": "results",
    "RunProgress": "runner",
    "Unit": "plan",
    "carry_out": "runner",
    "estimate": "results",
    "full": "plan",
    "latest": "results",
    "load_results": "results",
    "matched_width": "networks",
    "quick": "plan",
    "comparison_page": "page",
    "reuse": "runner",
    "units": "tasks",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
