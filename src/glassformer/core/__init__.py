"""Pure functions on tensors, without modules or state."""

from __future__ import annotations

from glassformer.core import audio, cost, masks, positions, rotary, transport
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
from glassformer.core.audio import MelConfig, log_mel, whisper_log_mel
from glassformer.core.fused import Fused, Pattern, attend_fused

__all__ = [
    "Attended",
    "Fused",
    "MelConfig",
    "Pattern",
    "attend",
    "attend_columns",
    "attend_fused",
    "audio",
    "cost",
    "gumbel_softargmax",
    "hardargmax",
    "log_mel",
    "masks",
    "positions",
    "rotary",
    "scores",
    "softargmax",
    "straight_through",
    "transport",
    "whisper_log_mel",
]
