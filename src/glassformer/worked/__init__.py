"""Exercises on paper: exact arithmetic, every step as data. Never imports torch.

    from glassformer.worked import load
    from glassformer.worked.solve import solve
    solve(load("exercise.yaml")).steps

The modules are the interface: problem (files), plan (what is computed from what), solve (steps), library (the embedded
exercises), numbers and matrix (exact values). The names below load when first used.
"""

from __future__ import annotations

from glassformer.names import on_first_use

# name -> the module it lives in
_NAMES = {
    "Exact": "numbers",
    "Exercise": "problem",
    "Matrix": "matrix",
    "Operation": "plan",
    "Plan": "plan",
    "Solution": "solve",
    "Step": "solve",
    "load": "problem",
    "schema": "problem",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
