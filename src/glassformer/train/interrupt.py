"""Handling of Ctrl-C, SIGTERM and SIGHUP: finish and save the current step before stopping."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

STDOUT, STDERR = 1, 2
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupt:
    """Context manager in which the first signal sets `requested`, and a second Ctrl-C interrupts immediately.

    The first signal prints a message on standard error, unless `quiet`.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.requested, self.quiet = False, quiet
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers only in this thread
            self._before = {number: signal.signal(number, self._request) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set from Python

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.requested and not self.quiet:
            hint = "; Ctrl-C again stops at once, without saving" if number == signal.SIGINT else ""
            try:  # not print: the signal may have interrupted one
                os.write(STDERR, f"\nglassformer: stopping after this step and saving{hint}\n".encode())
            except OSError:
                _discard_output()
        self.requested = True


def _discard_output() -> None:
    """Discard output to a closed terminal, since later messages would end the run before it has saved."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):
        if os.path.sameopenfile(STDOUT, STDERR):
            os.dup2(null, STDOUT)
        os.dup2(null, STDERR)
    os.close(null)
