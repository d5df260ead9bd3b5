"""When the numbers of a tensor can be looked at, and a check of them made."""

from __future__ import annotations

import torch
from torch import Tensor


def has_values(X: Tensor) -> bool:
    """False on the meta device and while a compiler traces: X then has a shape and no numbers."""
    return not (X.is_meta or torch.compiler.is_compiling())
