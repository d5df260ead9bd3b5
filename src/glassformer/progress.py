"""Progress of long work: reported where the work is done, and received by whoever listens in the same context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str, int, int], None]
"""Receives what is being done, the number of steps done, and their total (0 if unknown)."""
_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with every report of the work done within this context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, done: int = 0, total: int = 0) -> None:
    """Report what is being done, and how much of it is done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


def tracked(items: Collection[Item], what: str) -> Iterator[Item]:
    """Iterate over `items`, and report before each how many are done."""
    for done, item in enumerate(items):
        report(what, done, len(items))
        yield item
