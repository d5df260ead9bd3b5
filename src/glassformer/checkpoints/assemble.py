"""Build a model without weights, then assign them: nothing is allocated that a file already holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import CheckpointError, ConfigError, GlassError


def empty(build: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """Build the model on the meta device: shapes without data."""
    try:
        with torch.device("meta"):
            return build(config)
    except GlassError:
        raise
    except (RuntimeError, ValueError, OverflowError, MemoryError) as error:
        fact = f"no model can be built from this {type(config).__name__} ({str(error).splitlines()[0][:80]})"
        raise ConfigError(fact, "choose sizes that fit a machine and probabilities from 0 to 1") from None


def assign(model: nn.Module, name: str, value: Tensor) -> None:
    """Assign a parameter or buffer without copying it."""
    path, _, leaf = name.rpartition(".")
    place = model.get_submodule(path)
    if leaf in place._parameters:
        learned = place._parameters[leaf]
        assert learned is not None
        trained = learned.requires_grad and value.is_floating_point()  # tables computed from a formula are not trained
        place.register_parameter(leaf, nn.Parameter(value, requires_grad=trained))
    else:
        place.register_buffer(leaf, value)


def restore_buffers(model: nn.Module, dtype: torch.dtype) -> None:
    """Restore buffers that no file holds: scalars that only carry the dtype, or those computed by `fill_buffers`."""
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if not buffer.is_meta:
                continue
            if buffer.dim() == 0:
                kind = dtype if buffer.is_floating_point() else buffer.dtype
                module.register_buffer(name, torch.zeros((), dtype=kind), persistent=False)
            else:
                fill = getattr(type(module), "fill_buffers", None)
                if fill is None:
                    raise TypeError(f"{type(module).__name__}.{name} is in no file: give the class fill_buffers(dtype)")
                fill(module, dtype)


def require_numbers(name: str, value: Tensor) -> None:
    """Require that every number is finite. Checking only the minimum and maximum needs no extra memory."""
    if not value.is_floating_point() or not value.numel() or all(map(torch.isfinite, torch.aminmax(value))):
        return
    flat = value.reshape(-1)
    place = int((~torch.isfinite(flat)).nonzero()[0])
    fact = f"weight {name} is {float(flat[place])} at index {place}"
    raise CheckpointError(fact, "the checkpoint is damaged; download it again, or use an earlier one")
