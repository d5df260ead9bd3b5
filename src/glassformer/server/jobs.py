"""Work in a thread, stopped when no client is waiting for its result."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")
WAIT = 0.02  # seconds between checks of a running import
importing = threading.Lock()  # held while modules are imported, so that no thread sees a partially initialised module


class Abandoned(BaseException):
    """Raised inside work whose client has disconnected or whose time limit is exceeded."""


class Job(Generic[Result]):
    """A function to be called once, in a thread. `abandon` raises `Abandoned` in it before its next Python instruction.

    A call into C, such as one tensor operation, is completed first.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self.work = work
        self.thread: int | None = None
        self.ended = False
        self.lock = threading.Lock()

    def __call__(self) -> Result:
        with self.lock:
            if self.ended:
                raise Abandoned
            self.thread = threading.get_ident()
        try:
            return self.work()
        finally:
            with self.lock:
                self.ended = True
                _interrupt(self.thread, None)  # it arrived too late: the thread is already doing other work

    def abandon(self) -> None:
        """Stop the work, but not during an import, which would leave a partially initialised module behind."""
        while not self._abandoned():
            time.sleep(WAIT)

    def _abandoned(self) -> bool:
        with importing, self.lock:
            interval = sys.getswitchinterval()  # read under the lock: another thread changes it meanwhile
            try:
                sys.setswitchinterval(10)  # seconds: no other thread runs during this check
                if self.thread is not None and not self.ended:
                    if _imports(self.thread):
                        return False
                    _interrupt(self.thread, Abandoned)
                self.ended = True
            finally:
                sys.setswitchinterval(interval)
        return True


def _imports(thread: int) -> bool:
    """Return whether a thread is importing a module: torch and others import some on first use."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _interrupt(thread: int, error: type[BaseException] | None) -> None:
    raised = ctypes.py_object() if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
