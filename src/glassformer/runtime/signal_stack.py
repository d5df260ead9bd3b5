"""The alternate signal stack of a thread, preserved while a library that replaces it runs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class SignalStack(ctypes.Structure):
    """stack_t of Linux."""

    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def kept_signal_stack() -> Iterator[None]:
    """Context manager that restores the alternate signal stack of this thread on exit.

    OpenVINO installs its own when a compiled model runs, and unmaps it when the model is deleted. Python's signal
    handlers run on that stack, so the next Ctrl-C, or the end of a child process, would cause a segmentation fault.
    """
    if sys.platform != "linux":
        yield
        return
    sigaltstack, before = ctypes.CDLL(None).sigaltstack, SignalStack()
    sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        sigaltstack(ctypes.byref(before), None)
