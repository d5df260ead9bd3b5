"""Runs, exercises and grades in a notebook: `gf.show(x)`.

A static page, which survives everywhere, and where a kernel answers the workbench itself in its place: the same modules
as the page of `glassformer serve`, whose requests travel as messages of an anywidget.
"""

from __future__ import annotations

from glassformer.lazy import on_first_use

_NAMES = {"Shown": "shown", "show": "shown"}

__all__ = list(_NAMES)
__getattr__ = on_first_use(__name__, _NAMES)
