"""Runs, exercises and grades in a notebook: `gf.show(x)`.

A notebook displays a static page. Where a kernel is running, the workbench replaces it: the same modules as the page of
`glassformer serve`, whose requests are sent as anywidget messages.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

_NAMES = {"Shown": "shown", "show": "shown"}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)
