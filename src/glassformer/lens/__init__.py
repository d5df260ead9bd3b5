"""Looking and editing: every quantity of a run by its path."""

from __future__ import annotations

from glassformer.lens.edit import at_heads, edit, freeze, patch, replace, zero, zero_head
from glassformer.lens.paths import AXES, layers, taps
from glassformer.lens.trace import Run, trace

__all__ = [
    "AXES",
    "Run",
    "at_heads",
    "edit",
    "freeze",
    "layers",
    "patch",
    "replace",
    "taps",
    "trace",
    "zero",
    "zero_head",
]
