"""The workbench: a local web page for exercises and models. `glassformer serve` starts it.

The server contains no logic: exercises are views of `report.paper`, computed in worker processes that can be
killed; models are views of `report.model`, computed in a bounded pool of threads.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

_NAMES = {"Settings": "settings", "create_app": "app", "serve": "run"}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)
