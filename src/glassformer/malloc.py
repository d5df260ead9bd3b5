"""Settings of glibc's allocator for a process that computes."""

from __future__ import annotations

import ctypes
import os
import sys

# Constants of malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = 2**30  # bytes


def keep_freed_memory() -> bool:
    """Let the process keep up to 1 GiB that it has freed, and return whether this was possible.

    By default glibc returns large blocks to the system and maps them again for the next activations, page by page.
    Nothing is changed on other systems, or if the user has set MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and all(mallopt(name, KEPT) == 1 for name in (TRIM_THRESHOLD, MMAP_THRESHOLD))
