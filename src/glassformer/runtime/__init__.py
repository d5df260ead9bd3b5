"""How fast it is here: benchmarks as ratios to a peer in the same run."""

from __future__ import annotations

from glassformer.runtime.measure import card, interleaved

__all__ = ["card", "interleaved"]
