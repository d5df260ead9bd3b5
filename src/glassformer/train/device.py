"""Device and precision of a training run."""

from __future__ import annotations

import os

import torch

from glassformer.core.precision import bfloat16_works, require_runnable
from glassformer.errors import InputError
from glassformer.runtime.device import choose_device
from glassformer.train.objective import Batch


def resolve_device(name: str) -> torch.device:
    """Resolve a device name as `choose_device` does; under torchrun each process gets its own GPU."""
    device = choose_device(name)
    if device == torch.device("cuda") and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


def to_device(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def runs_bfloat16(device: torch.device) -> bool:
    """Return whether the device supports bfloat16 natively, without emulation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() and bfloat16_works()
    return device.type == "mps" and torch.backends.mps.is_macos_or_newer(14, 0)


def autocast_of(precision: str, device: torch.device) -> torch.autocast | None:
    """Return the autocast context for forward passes, or None for float32. `auto` uses bfloat16 if it is native."""
    if precision == "fp32" or (precision == "auto" and not runs_bfloat16(device)):
        return None
    if device.type == "cpu":
        require_runnable(torch.bfloat16)
    elif not runs_bfloat16(device):
        raise InputError(f"--precision bf16 is not supported on {device}", "choose auto or fp32")
    return torch.autocast(device.type, dtype=torch.bfloat16)
