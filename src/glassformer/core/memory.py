"""Memory for what is large: what every long input maps anew should not be mapped in small pieces, nor over and over."""

from __future__ import annotations

import math
import mmap
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

# glibc maps every block above this anew, however often it was given back; to fault its pages in one by one takes
# longer than to fill it.
MAPPED = 32 * 2**20
LARGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")
MOST = 2  # who goes from A to A still holds the last one while the next is made


class _Here(threading.local):
    blocks: list[mmap.mmap] | None = None


_here = _Here()


def room(shape: Sequence[int], like: Tensor) -> Tensor:
    """An empty tensor; what is large lies on large pages, where the system has them to give."""
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size <= MAPPED or not LARGE_PAGES:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return torch.frombuffer(_block(size), dtype=like.dtype).view(*shape)


@contextmanager
def again(blocks: list[mmap.mmap]) -> Iterator[None]:
    """While this is open, what `room` gave and nobody holds any more is given again; it stays mapped in `blocks`."""
    before, _here.blocks = _here.blocks, blocks
    try:
        yield
    finally:
        _here.blocks = before


def _block(size: int) -> mmap.mmap:
    kept = _here.blocks
    for at in range(len(kept or ())):
        # A tensor, and every view of it, holds the block it lies on: two here are the list and the argument.
        if kept and len(kept[at]) == size and sys.getrefcount(kept[at]) == 2:
            return kept[at]
    block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # advice: it may be refused
        block.madvise(mmap.MADV_HUGEPAGE)
    if kept is not None:
        kept[:] = [*(old for old in kept if len(old) == size), block][-MOST:]
    return block
