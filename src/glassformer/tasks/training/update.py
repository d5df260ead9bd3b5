"""θ ← AdamW(θ, (1/N) Σ ∇loss): one step from all batches of all processes, N predictions in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from glassformer.nn.finite import looked_at
from glassformer.tasks.training.average import Average, kept
from glassformer.tasks.training.course import Job, mixed, seed_all
from glassformer.tasks.training.folder import not_finite
from glassformer.tasks.training.lesson import Batch, Lesson
from glassformer.tasks.training.optimise import adamw, clip, set_rate
from glassformer.tasks.training.plan import Plan
from glassformer.tasks.training.precision import autocast_of
from glassformer.tasks.training.schedule import rate_at
from glassformer.tasks.training.spread import Spread, Task, device_of, to_device

Taken = Sequence[tuple[Job, Batch | None]]


class Stepped(NamedTuple):
    """Sums over the step: loss, its weight (predictions), rows; and the rate and the gradient's length."""

    loss: float
    weight: float
    rows: float
    rate: float
    gradient: float

    @property
    def mean(self) -> float:
        return self.loss / self.weight if self.weight else math.nan


class Update:
    """The weights, their moments and their average, and how a step changes them."""

    def __init__(self, model: nn.Module, lesson: Lesson, plan: Plan, spread: Spread, folder: Path | None) -> None:
        self.lesson, self.plan, self.spread, self.folder = lesson, plan, spread, folder
        self.device = device_of(model)
        self.cast = autocast_of(plan.precision, self.device)
        self.task, self.model = spread.wrap(model, lesson)
        self.optimiser = adamw(self.model, plan.optimise)
        self.weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.average = None if plan.average is None else Average(self.model, plan.average)
        self._stand_in: Batch | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        found = {f"model.{name}": tensor.detach() for name, tensor in kept(self.model).items()}
        for name, weight in self.model.named_parameters():
            found |= {f"optimiser.{name}.{key}": value for key, value in self.optimiser.state.get(weight, {}).items()}
        if self.average is not None:
            found |= {f"average.{name}": tensor for name, tensor in self.average.tensors.items()}
        return found

    def step(self, number: int, taken: Taken) -> Stepped:
        """Step `number`, counted from 0. Its random numbers are a function of seed, step and rank alone."""
        plan, spread = self.plan, self.spread
        rate = rate_at(number, plan.optimise, plan.steps)
        own = [0.0 if batch is None else self.lesson.weigh(batch) for _, batch in taken]
        rows, *weights = spread.total(float(sum(len(job.rows) for job, _ in taken)), *own)
        weight = sum(weights)
        if weight == 0:  # every row was faulty: the step passes, and the lesson has counted why
            return Stepped(0.0, 0.0, rows, rate, 0.0)
        seed_all(mixed(plan.seed, number, spread.rank))
        turns = [pair for pair, every in zip(taken, weights, strict=True) if every > 0]
        losses = [self._backward(turn[1], spread.world / weight, turn is turns[-1]) for turn in turns]
        (loss,) = spread.total(sum(losses))
        if not math.isfinite(loss):
            bad = [turn for turn, own_loss in zip(turns, losses, strict=True) if not math.isfinite(own_loss)]
            raise not_finite(self.folder, number + 1, "loss", loss, bad, spread.rank)
        gradient = float(clip(self.weights, plan.optimise.clip))
        if not math.isfinite(gradient):
            raise not_finite(self.folder, number + 1, "gradient", gradient, turns, spread.rank)
        set_rate(self.optimiser, rate)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        spread.align(self.model)
        if self.average is not None:
            self.average.update(number)
        return Stepped(loss, weight, rows, rate, gradient)

    def _backward(self, batch: Batch | None, factor: float, last: bool) -> float:
        """∇ of factor · loss is added up; the loss. A process without rows goes along with a factor of 0."""
        if batch is None:
            if self._stand_in is None:
                self._stand_in = Task(self.model, self.lesson).some()
            batch, factor = self._stand_in, 0.0
        with self.spread.exchanging(self.task, last):
            with looked_at(), nullcontext() if self.cast is None else self.cast:
                loss: Tensor = self.task(to_device(batch, self.device))
            (loss * factor).backward()
        return float(loss.detach()) if factor else 0.0
