"""The device that a model runs on."""

from __future__ import annotations

import torch

from glassformer.errors import InputError

DEVICES = ("auto", "cpu", "cuda", "mps")


def available_devices() -> tuple[str, ...]:
    """The devices of this machine, fastest first."""
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return tuple(name for name, there in found.items() if there)


def choose_device(name: str = "auto") -> torch.device:
    """auto: CUDA if available, else MPS, else the CPU; a device that this machine lacks is refused."""
    devices = available_devices()
    if name == "auto":
        return torch.device(devices[0])
    if name.partition(":")[0] not in devices:
        raise InputError(f"device {name!r} is not available on this machine", f"choose auto or {', '.join(devices)}")
    return torch.device(name)
