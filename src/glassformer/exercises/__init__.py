"""Pen-and-paper exercises: exact arithmetic, with every step available as data. Never imports torch.

    from glassformer.exercises import solve
    solve("four-tokens").steps

`exercise` defines the file format, `plan` the computation graph, `solution` the solved steps, `library` the embedded
exercises, `numbers` and `matrix` the exact values, `reader` the parser of learners' work. Names are imported lazily.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

# name -> the module that defines it
_NAMES = {
    "Exact": "numbers",
    "Exercise": "exercise",
    "Matrix": "matrix",
    "Operation": "plan",
    "Plan": "plan",
    "Solution": "solution",
    "Step": "solution",
    "load_exercise": "exercise",
    "render": "solution",
    "schema": "exercise",
    "solve": "solution",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
