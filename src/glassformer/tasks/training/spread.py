"""g = Σ over processes of g_rank: one training in one process, or in as many as torchrun has started.

A step's rows are dealt out (every `world`-th to each process), its loss is divided by the weight of all of them, so the
gradient is that of one process up to rounding. DDP keeps whole models in step; FSDP2 leaves each process a part.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from glassformer.errors import ConfigError, InputError
from glassformer.nn.blocks import Block
from glassformer.tasks.training.lesson import Batch, Lesson

# Whoever lets go of a group last waits for its threads. DDP would do so with Python's lock held, which a thread of gloo
# may want first: then both wait forever. So the group is never DDP's alone.
_PARTED: list[dist.ProcessGroup | None] = []


class Task(nn.Module):
    """loss(batch) as a module, so that what wraps a module's call (DDP, FSDP) wraps all of a lesson."""

    def __init__(self, model: nn.Module, lesson: Lesson) -> None:
        super().__init__()
        self.model, self._lesson = model, lesson

    def forward(self, batch: Batch) -> Tensor:
        return self._lesson.loss(self.model, batch)

    def some(self) -> Batch:
        """A batch that can be read, for a process that has none of its own while others wait for it."""
        found = (self._lesson.batch(rows, 0) for rows in self._lesson.epoch(0))
        batch = next((batch for batch in found if batch is not None), None)
        if batch is None:
            raise InputError("no batch of the first epoch has a row that can be used", "check the data")
        return batch


class Spread:
    """One process: nothing to agree on."""

    rank = 0
    world = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module, lesson: Lesson) -> tuple[nn.Module, nn.Module]:
        """The module that gives the loss of a batch, and the model in it whose weights are to be moved."""
        return Task(model, lesson), model

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Each number, summed over the processes."""
        return numbers

    def any(self, holds: bool) -> bool:
        return self.total(float(holds))[0] > 0

    def agreed(self, *numbers: float) -> tuple[float, ...]:
        """As the first process has them."""
        return numbers

    def wait(self) -> None:
        """Until every process is here."""

    @contextmanager
    def exchanging(self, task: nn.Module, last: bool) -> Iterator[None]:
        """Gradients travel in the last backward pass of a step only."""
        yield

    def align(self, model: nn.Module) -> None:
        """Buffers (a norm's running means) as the first process has them."""

    @contextmanager
    def whole(self, task: nn.Module) -> Iterator[None]:
        """Every process has every weight for a while, to measure."""
        yield

    def give_back(self, trained: nn.Module, model: nn.Module) -> None:
        """The trained values into the model that was given."""


class Replicated(Spread):
    """The whole model in every process (DDP)."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrap(self, model: nn.Module, lesson: Lesson) -> tuple[nn.Module, nn.Module]:
        devices = None if self.device.type == "cpu" else [self.device]
        task = Task(model, lesson)
        return DistributedDataParallel(task, device_ids=devices, find_unused_parameters=_leaves_out(task)), model

    def total(self, *numbers: float) -> tuple[float, ...]:
        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def agreed(self, *numbers: float) -> tuple[float, ...]:
        sent = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.broadcast(sent, 0)
        return tuple(sent.tolist())

    def wait(self) -> None:
        dist.barrier()

    @contextmanager
    def exchanging(self, task: nn.Module, last: bool) -> Iterator[None]:
        if last or not isinstance(task, DistributedDataParallel):
            yield
            return
        with task.no_sync():
            yield

    def align(self, model: nn.Module) -> None:
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)


class Sharded(Replicated):
    """A part of every weight, its gradient and its moments in each process (FSDP2); blocks are put together in turn."""

    def wrap(self, model: nn.Module, lesson: Lesson) -> tuple[nn.Module, nn.Module]:
        model = copy.deepcopy(model)  # sharding changes a model for good; the one that was given is given back whole
        task = Task(model, lesson)
        for block in [module for module in model.modules() if isinstance(module, Block)]:
            fully_shard(block)
        fully_shard(task)
        return task, model

    @contextmanager
    def exchanging(self, task: nn.Module, last: bool) -> Iterator[None]:
        if isinstance(task, FSDPModule):
            task.set_requires_gradient_sync(last)
        yield

    @contextmanager
    def whole(self, task: nn.Module) -> Iterator[None]:
        parts = [module for module in task.modules() if isinstance(module, FSDPModule)]
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in parts:
                part.reshard()
                part.set_reshard_after_forward(part is not parts[0], recurse=False)

    @torch.no_grad()
    def give_back(self, trained: nn.Module, model: nn.Module) -> None:
        given = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name, tensor in {**dict(trained.named_parameters()), **dict(trained.named_buffers())}.items():
            given[name].copy_(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor)


@contextmanager
def gathered(shard: bool, device: torch.device) -> Iterator[Spread]:
    """The processes that torchrun (or whoever sets RANK and WORLD_SIZE) has started; else this one alone."""
    world = dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        if shard:
            raise ConfigError("there is 1 process to shard over", "start several with torchrun, or leave shard out")
        yield Spread()
        return
    own = not dist.is_initialized()
    if own:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    _PARTED.append(dist.group.WORLD)
    try:
        yield Sharded(device) if shard else Replicated(device)
    finally:
        if own:
            dist.destroy_process_group()


def _leaves_out(task: Task) -> bool:
    """Whether the loss leaves some weights alone, which DDP wants to know. Tried in eval: no statistic moves."""
    task.eval()
    task(to_device(task.some(), device_of(task))).backward()
    left = any(weight.grad is None for weight in task.parameters() if weight.requires_grad)
    task.zero_grad(set_to_none=True)
    task.train()
    return left


def to_device(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def device_of(model: nn.Module) -> torch.device:
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))
