"""When the numbers of a tensor can be looked at, and a check of them made."""

from __future__ import annotations

import torch
from torch import Tensor


def has_values(X: Tensor) -> bool:
    """False on the meta device and while a compiler traces: X then has a shape and no numbers."""
    return not (X.is_meta or torch.compiler.is_compiling())


def is_plain(*parts: Tensor) -> bool:
    """Only numbers: no gradient, compiler or transform follows them, so that they may be written over."""
    graded = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    return not graded and has_values(parts[0]) and not torch._C._are_functorch_transforms_active()
