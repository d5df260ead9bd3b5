"""Tensors in, tensors out; no modules, no state."""

from __future__ import annotations

from glassformer.core import cost, masks, positions, rotary, transport
from glassformer.core.attention import (
    Attended,
    attend,
    attend_columns,
    gumbel_softargmax,
    hardargmax,
    scores,
    softargmax,
    straight_through,
)
from glassformer.core.fused import Fused, Pattern, attend_fused

__all__ = [
    "Attended",
    "Fused",
    "Pattern",
    "attend",
    "attend_columns",
    "attend_fused",
    "cost",
    "gumbel_softargmax",
    "hardargmax",
    "masks",
    "positions",
    "rotary",
    "scores",
    "softargmax",
    "straight_through",
    "transport",
]
