"""η(s) = rate · min(1, (s + 1)/warmup) at first, then along a cosine, along 1/√s, or level."""

from __future__ import annotations

import math

from glassformer.tasks.training.plan import Optimise


def rate_at(step: int, optimise: Optimise, steps: int) -> float:
    """The rate of update `step`, counted from 0, out of `steps`. Never under floor · rate once warm.

    cosine        ½(1 + cos π k/(steps − warmup)), k updates after warming up (Loshchilov, Hutter 2017)
    inverse_sqrt  √(warmup/(s + 1)) (Vaswani et al. 2017)
    """
    o = optimise
    if step < o.warmup:
        return o.rate * (step + 1) / o.warmup
    if o.schedule == "constant":
        factor = 1.0
    elif o.schedule == "cosine":
        factor = (1 + math.cos(math.pi * (step - o.warmup) / (steps - o.warmup))) / 2
        factor = o.floor + (1 - o.floor) * factor
    else:
        factor = max(o.floor, math.sqrt(max(o.warmup, 1) / (step + 1)))
    return o.rate * factor
