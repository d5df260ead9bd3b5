"""θ ← AdamW(θ, (1/N) Σ ∇loss): one optimizer step over all batches of all processes, with N predictions in total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from torch.autograd.graph import increment_version

from glassformer.models.protocols import device_of
from glassformer.nn.finite import unchecked_finite
from glassformer.runtime.precision import prepare
from glassformer.train.args import TrainArgs
from glassformer.train.batches import BatchJob, mix_seeds, seed_all
from glassformer.train.device import autocast_of, to_device
from glassformer.train.distributed import LossModule, SingleProcess
from glassformer.train.ema import EMA, tensors_of
from glassformer.train.objective import Batch, Objective
from glassformer.train.optimizer import adamw, clip_gradients, lr_at, set_lr
from glassformer.train.run_folder import not_finite

Loaded = Sequence[tuple[BatchJob, Batch | None]]


class StepResult(NamedTuple):
    """Sums over a step (loss, predictions, rows), its learning rate and its gradient norm before clipping."""

    loss: float
    predictions: float
    rows: float
    lr: float
    grad_norm: float

    @property
    def mean(self) -> float:
        return self.loss / self.predictions if self.predictions else math.nan


class Stepper:
    """Performs optimizer steps; holds the weights, their moments and their moving average."""

    def __init__(
        self, model: nn.Module, objective: Objective, args: TrainArgs, processes: SingleProcess, folder: Path | None
    ) -> None:
        self.objective, self.args, self.processes, self.folder = objective, args, processes, folder
        self.device = device_of(model)
        self.autocast = autocast_of(args.precision, self.device)
        if self.autocast is None and self.device.type == "cpu":
            prepare(model, "fp32")
        self.task, self.model = processes.wrap(model, objective)
        self.optimizer = adamw(self.model, args)
        self.weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.ema = None if args.ema is None else EMA(self.model, args.ema)
        self._placeholder: Batch | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that a step changes, by name."""
        found = {f"model.{name}": tensor.detach() for name, tensor in tensors_of(self.model).items()}
        for name, weight in self.model.named_parameters():
            found |= {f"optimizer.{name}.{key}": value for key, value in self.optimizer.state.get(weight, {}).items()}
        if self.ema is not None:
            found |= {f"ema.{name}": tensor for name, tensor in self.ema.tensors.items()}
        return found

    def step(self, number: int, loaded: Loaded) -> StepResult:
        """Perform step `number`, counted from 0. Its random numbers depend only on seed, step and rank."""
        args, processes = self.args, self.processes
        lr = lr_at(number, args)
        own = [0.0 if batch is None else self.objective.count(batch) for _, batch in loaded]
        rows, *counts = processes.sum(float(sum(len(job.rows) for job, _ in loaded)), *own)
        count = sum(counts)
        if count == 0:  # every row was faulty: the step is skipped, and the objective has recorded why
            return StepResult(0.0, 0.0, rows, lr, 0.0)
        seed_all(mix_seeds(args.seed, number, processes.rank))
        turns = [pair for pair, every in zip(loaded, counts, strict=True) if every > 0]
        losses = [self._backward(turn[1], processes.world_size / count, turn is turns[-1]) for turn in turns]
        (loss,) = processes.sum(sum(losses))
        if not math.isfinite(loss):
            bad = [turn for turn, own_loss in zip(turns, losses, strict=True) if not math.isfinite(own_loss)]
            raise not_finite(self.folder, number + 1, "loss", loss, bad, processes.rank)
        grad_norm = float(clip_gradients(self.weights, args.grad_clip))
        if not math.isfinite(grad_norm):
            raise not_finite(self.folder, number + 1, "gradient", grad_norm, turns, processes.rank)
        set_lr(self.optimizer, lr)
        self.optimizer.step()
        increment_version(self.weights)  # a fused optimizer does not, and packed copies would look current
        self.optimizer.zero_grad(set_to_none=True)
        processes.sync_buffers(self.model)
        if self.ema is not None:
            self.ema.update(number)
        return StepResult(loss, count, rows, lr, grad_norm)

    def _backward(self, batch: Batch | None, factor: float, last: bool) -> float:
        """Accumulate ∇(factor · loss) and return the loss. A process without rows takes part with a factor of 0."""
        if batch is None:
            if self._placeholder is None:
                self._placeholder = LossModule(self.model, self.objective).any_batch()
            batch, factor = self._placeholder, 0.0
        with self.processes.gradient_sync(self.task, last):
            with unchecked_finite(), nullcontext() if self.autocast is None else self.autocast:
                loss: Tensor = self.task(to_device(batch, self.device))
            (loss * factor).backward()
        return float(loss.detach()) if factor else 0.0
