"""Memory for what is large: what every long input maps anew should not be mapped in small pieces."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

# glibc maps every block above this anew, however often it was given back; to fault its small pages in one by one takes
# longer than to fill it.
MAPPED = 32 * 2**20


def room(shape: Sequence[int], like: Tensor) -> Tensor:
    """An empty tensor; what is large lies on large pages, where the system has them to give."""
    out = torch.empty(shape, dtype=like.dtype, device=like.device)
    advise = _advise()
    if advise is not None and out.device.type == "cpu" and out.nbytes > MAPPED:
        start = -(-out.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = (out.data_ptr() + out.nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
        advise(ctypes.c_void_p(start), ctypes.c_size_t(whole), mmap.MADV_HUGEPAGE)  # advice: it may be refused
    return out


@cache
def _advise() -> Any:
    """madvise of the C library; None where there are no large pages to ask for."""
    return getattr(ctypes.CDLL(None), "madvise", None) if hasattr(mmap, "MADV_HUGEPAGE") else None
