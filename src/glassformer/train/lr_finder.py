"""`--lr auto`: the learning rate range test. The rate rises from 10⁻⁷ to 1 while the loss of every batch is recorded.

Smith, "Cyclical Learning Rates for Training Neural Networks", 2017. The choice is a tenth of the rate at which the
smoothed loss is lowest, the rule that fastai made popular.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import islice
from typing import NamedTuple

from torch import nn

from glassformer.errors import InputError
from glassformer.models.protocols import device_of
from glassformer.nn.finite import unchecked_finite
from glassformer.train.args import TrainArgs
from glassformer.train.batches import jobs, mix_seeds, seed_all
from glassformer.train.device import to_device
from glassformer.train.objective import Objective
from glassformer.train.optimizer import adamw, clip_gradients, set_lr

LOW, HIGH, STEPS = 1e-7, 1.0, 100
SMOOTHING = 0.9
DIVERGED = 2.0  # the test ends once the smoothed loss is this many times the lowest


class RangeTest(NamedTuple):
    """The chosen rate, and the rates that were tried with their smoothed losses."""

    lr: float
    rates: list[float]
    losses: list[float]


def find_lr(model: nn.Module, objective: Objective, args: TrainArgs) -> RangeTest:
    """Run the range test on a copy of the model; the same arguments and data give the same rate."""
    copy = deepcopy(model).train()
    optimizer, device = adamw(copy, args), device_of(copy)
    weights = [weight for weight in copy.parameters() if weight.requires_grad]
    rates, losses, mean = list[float](), list[float](), 0.0
    for k, job in enumerate(islice(jobs(objective, args.seed, 0, 0), STEPS)):
        batch = objective.batch(job.rows, job.seed)
        count = 0.0 if batch is None else objective.count(batch)
        if batch is None or not count:
            continue
        rate = LOW * (HIGH / LOW) ** (k / (STEPS - 1))
        seed_all(mix_seeds(args.seed, k, -2))
        with unchecked_finite():
            loss = objective.loss(copy, to_device(batch, device)) / count
        value = float(loss.detach())
        mean = SMOOTHING * mean + (1 - SMOOTHING) * value
        smoothed = mean / (1 - SMOOTHING ** (len(losses) + 1))
        if not math.isfinite(value) or (losses and smoothed > DIVERGED * min(losses)):
            break
        rates.append(rate)
        losses.append(smoothed)
        loss.backward()
        if not math.isfinite(float(clip_gradients(weights, args.grad_clip))):
            break
        set_lr(optimizer, rate)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return RangeTest(suggestion(rates, losses), rates, losses)


def suggestion(rates: Sequence[float], losses: Sequence[float]) -> float:
    """A tenth of the rate with the lowest smoothed loss, to two digits."""
    if len(losses) < 10:
        raise InputError(
            "--lr auto: the loss is not finite from the start", "inspect the data, or give a learning rate"
        )
    best = rates[min(range(len(losses)), key=losses.__getitem__)] / 10
    return float(f"{best:.1e}")
