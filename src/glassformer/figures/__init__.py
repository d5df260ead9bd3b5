"""Every picture, one function each: arrays in, a matplotlib figure out."""

from __future__ import annotations

from glassformer.figures.attention import alignment, arcs, attention_map, heads_of_layer
from glassformer.figures.style import save

__all__ = ["alignment", "arcs", "attention_map", "heads_of_layer", "save"]
