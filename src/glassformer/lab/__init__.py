"""One experiment for each claim that is taught about attention: measured, judged by a stated rule, drawn.

    from glassformer.lab import run
    outcome = run(7, seed=1, alpha=3.0)
    outcome.verdict, outcome.result

The names below load when first used.
"""

from __future__ import annotations

from glassformer.names import on_first_use

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
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
