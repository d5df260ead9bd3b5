"""Whether the values of a tensor can be inspected or overwritten."""

from __future__ import annotations

import torch
from torch import Tensor


def has_values(X: Tensor) -> bool:
    """Return False on the meta device and while compiling, when X has a shape but no values."""
    return not (X.is_meta or torch.compiler.is_compiling())


def is_plain(*parts: Tensor) -> bool:
    """Return True if no gradient, compiler or functorch transform tracks the tensors, so in-place writes are safe."""
    graded = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    return not graded and has_values(parts[0]) and not torch._C._are_functorch_transforms_active()
