"""Claims about attention, each tested by an experiment with a stated decision rule; architecture comparisons.

    from glassformer.lab import run_claim
    outcome = run_claim(7, seed=1, alpha=3.0)
    outcome.verdict, outcome.result

Names are imported lazily.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

# name -> module that defines it
_NAMES = {
    "Experiment": "experiment",
    "Outcome": "experiment",
    "Parameter": "experiment",
    "Verdict": "experiment",
    "claim": "claims",
    "numbers": "claims",
    "claims_page": "page",
    "run_claim": "run",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
