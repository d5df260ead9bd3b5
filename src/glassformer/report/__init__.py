"""Runs, solutions and grades as plain data ("views") and as HTML pages.

Names are imported lazily: `report.paper` does not need torch.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

# name -> the module that defines it
_NAMES = {
    "Report": "views",
    "Section": "views",
    "closest_heads": "closest",
    "important_patches": "patches",
    "look": "model_report",
}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)
