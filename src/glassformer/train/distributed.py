"""g = Σ over processes of g_rank: data-parallel training in one process, or in the processes started by torchrun.

Each process gets every `world_size`-th row of a step, and the loss is divided by the number of predictions across all
processes, so the gradient equals that of a single process up to rounding. DDP replicates the model; FSDP2 shards it.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined] # torch re-exports them
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from glassformer.data.faults import Faults
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import device_of
from glassformer.nn.blocks import Block
from glassformer.train.device import to_device
from glassformer.train.objective import Batch, Objective

# The last owner of a process group waits for its threads. DDP would do so while holding the GIL, which a gloo thread
# may need first, causing a deadlock. This reference keeps DDP from being the last owner.
_GROUPS: list[dist.ProcessGroup | None] = []


class LossModule(nn.Module):
    """loss(batch) as a module, so that DDP and FSDP, which wrap a module's forward, cover the whole objective."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = model, objective

    def forward(self, batch: Batch) -> Tensor:
        return self._objective.loss(self.model, batch)

    def any_batch(self) -> Batch:
        """Return a readable batch for a process that has no rows of its own but must take part in the step."""
        found = (self._objective.batch(rows, 0) for rows in self._objective.epoch(0))
        batch = next((batch for batch in found if batch is not None), None)
        if batch is None:
            raise InputError("no batch of the first epoch has a row that can be used", "check the data")
        return batch


class SingleProcess:
    """Single-process training: the interface of the distributed strategies, with nothing to synchronise."""

    rank = 0
    world_size = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module, objective: Objective) -> tuple[nn.Module, nn.Module]:
        """Return the module that computes the loss of a batch, and the model inside it whose weights are trained."""
        return LossModule(model, objective), model

    def sum(self, *numbers: float) -> tuple[float, ...]:
        """Sum each number over all processes."""
        return numbers

    def any(self, holds: bool) -> bool:
        return self.sum(float(holds))[0] > 0

    def broadcast(self, *numbers: float) -> tuple[float, ...]:
        """Return the main process's numbers in every process."""
        return numbers

    def gather_faults(self, faults: Faults) -> None:
        """Add the faults recorded by the other processes."""

    def barrier(self) -> None:
        """Wait until every process reaches this point."""

    @contextmanager
    def gradient_sync(self, task: nn.Module, last: bool) -> Iterator[None]:
        """Context manager that synchronises gradients only in the last backward pass of a step."""
        yield

    def sync_buffers(self, model: nn.Module) -> None:
        """Copy buffers (running statistics of norm layers) from the main process."""

    @contextmanager
    def unsharded(self, task: nn.Module) -> Iterator[None]:
        """Context manager that gathers every weight in every process, for evaluation."""
        yield

    def copy_back(self, trained: nn.Module, model: nn.Module) -> None:
        """Copy the trained values into the model that was passed in. All processes take part."""


class DDP(SingleProcess):
    """Distributed data parallel: every process holds the whole model."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world_size, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrap(self, model: nn.Module, objective: Objective) -> tuple[nn.Module, nn.Module]:
        devices = None if self.device.type == "cpu" else [self.device]
        task = LossModule(model, objective)
        return DistributedDataParallel(task, device_ids=devices, find_unused_parameters=_has_unused(task)), model

    def sum(self, *numbers: float) -> tuple[float, ...]:
        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def broadcast(self, *numbers: float) -> tuple[float, ...]:
        sent = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.broadcast(sent, 0)
        return tuple(sent.tolist())

    def gather_faults(self, faults: Faults) -> None:
        found: list[Faults] = [faults] * self.world_size
        dist.all_gather_object(found, faults)
        for other in found:
            faults.remember(other)

    def barrier(self) -> None:
        dist.barrier()

    @contextmanager
    def gradient_sync(self, task: nn.Module, last: bool) -> Iterator[None]:
        if last or not isinstance(task, DistributedDataParallel):
            yield
            return
        with task.no_sync():
            yield

    def sync_buffers(self, model: nn.Module) -> None:
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)


class FSDP(DDP):
    """FSDP2: each process holds a shard of every weight, its gradient and its moments, gathered block by block."""

    def wrap(self, model: nn.Module, objective: Objective) -> tuple[nn.Module, nn.Module]:
        model = copy.deepcopy(model)  # sharding is permanent; `copy_back` updates the model that was passed in
        task = LossModule(model, objective)
        for block in [module for module in model.modules() if isinstance(module, Block)]:
            fully_shard(block)
        fully_shard(task)
        return task, model

    @contextmanager
    def gradient_sync(self, task: nn.Module, last: bool) -> Iterator[None]:
        if isinstance(task, FSDPModule):
            task.set_requires_gradient_sync(last)
        yield

    @contextmanager
    def unsharded(self, task: nn.Module) -> Iterator[None]:
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
    def copy_back(self, trained: nn.Module, model: nn.Module) -> None:
        given = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name, tensor in {**dict(trained.named_parameters()), **dict(trained.named_buffers())}.items():
            given[name].copy_(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor)


@contextmanager
def process_group(fsdp: bool, device: torch.device) -> Iterator[SingleProcess]:
    """Join the processes started by torchrun (or any launcher that sets RANK and WORLD_SIZE), or run as one process."""
    world = dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        if fsdp:
            raise ConfigError("--fsdp needs several processes, but there is one", "start them with torchrun")
        yield SingleProcess()
        return
    own = not dist.is_initialized()
    if own:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            rank = int(os.environ["RANK"])
            store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=False)
            dist.init_process_group(backend, store=fresh_store(store, rank, world), rank=rank, world_size=world)
        else:
            dist.init_process_group(backend)
    _GROUPS.append(dist.group.WORLD)
    try:
        yield FSDP(device) if fsdp else DDP(device)
    finally:
        if own:
            dist.destroy_process_group()


def fresh_store(store: Store, rank: int, world: int, *, timeout: float = 300.0) -> Store:
    """Return a view of torchrun's store that only the processes of this launch share.

    torchrun keeps one store across restarts (https://github.com/pytorch/pytorch/issues/135712), so that a restarted
    process would find the addresses of dead processes. Therefore rank 0 draws a name for the view, and the others use
    it only once rank 0 has replied to them, which a dead process does not.
    """
    own, deadline = uuid4().hex, time.monotonic() + timeout
    if rank == 0:
        store.set("glassformer/main", own)
        for other in range(1, world):
            request = store.get(f"glassformer/{own}/{other}").decode()
            store.set(f"glassformer/{own}/{other}/{request}", "")
        return PrefixStore(own, store)
    while time.monotonic() < deadline:
        main = store.get("glassformer/main").decode()
        store.set(f"glassformer/{main}/{rank}", own)
        for _ in range(20):
            if store.check([f"glassformer/{main}/{rank}/{own}"]):
                return PrefixStore(main, store)
            time.sleep(0.05)
    raise ConfigError(f"process {rank} found no main process in {timeout:g} s", "see the log of the first host")


def is_main_process() -> bool:
    """Return whether this process prints and writes. Works before the process group exists."""
    return os.environ.get("RANK", "0") == "0"


def _has_unused(task: LossModule) -> bool:
    """Return whether the loss leaves weights unused, which DDP must know. Runs in eval mode to keep statistics."""
    task.eval()
    task(to_device(task.any_batch(), device_of(task))).backward()
    unused = any(weight.grad is None for weight in task.parameters() if weight.requires_grad)
    task.zero_grad(set_to_none=True)
    task.train()
    return unused
