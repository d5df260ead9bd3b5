"""bfloat16 for products, float32 for weights and sums: where the machine has it, and only there."""

from __future__ import annotations

from typing import Literal

import torch

from glassformer.core.precision import bfloat16_works, require_runnable
from glassformer.errors import InputError


def runs_bfloat16(device: torch.device) -> bool:
    """True if its products are the machine's own, neither fatal nor imitated."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() and bfloat16_works()
    return False


def autocast_of(precision: Literal["auto", "fp32", "bf16"], device: torch.device) -> torch.autocast | None:
    """What forward passes run under; None is float32. `auto` takes bfloat16 if it runs, `bf16` insists."""
    if precision == "fp32" or (precision == "auto" and not runs_bfloat16(device)):
        return None
    if device.type == "cpu":
        require_runnable(torch.bfloat16)
    elif not runs_bfloat16(device):
        raise InputError(f"bfloat16 does not run on {device}", "train with precision auto or fp32")
    return torch.autocast(device.type, dtype=torch.bfloat16)
