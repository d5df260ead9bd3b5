"""y = x: a named identity, at which a quantity of the model can be watched and edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn

Watcher = Callable[[Any], None]
Editor = Callable[[Any], Any]
Function = Callable[[Any], Any]

_SCOPES: ContextVar[tuple[object, ...]] = ContextVar("scopes", default=())  # currently entered by this thread or task


class Hook:
    """A function called only in the context that attached it. `whole`: it reads the whole quantity, not parts of it."""

    def __init__(self, scope: object, function: Function, whole: bool = False) -> None:
        self.scope, self.function, self.whole = scope, function, whole

    def __call__(self, x: Any) -> Any:
        return self.function(x)


def active(functions: list[Function]) -> list[Function]:
    """Return the functions that apply here: hooks of the current context, and functions attached without one."""
    scopes = _SCOPES.get()
    return [f for f in tuple(functions) if not isinstance(f, Hook) or f.scope in scopes]


@contextmanager
def attached(places: Iterable[tuple[list[Function], Function]], *, whole: bool = False) -> Iterator[None]:
    """Attach each function to its list of watchers or editors while the block runs, for the current context only.

    Other threads and tasks that run the same model at the same time are not affected. A thread started inside the
    block has its own context; run it in `contextvars.copy_context()` to include it.
    """
    scope = object()
    added: list[tuple[list[Function], Hook]] = []
    _SCOPES.set((*_SCOPES.get(), scope))
    try:
        for functions, function in places:
            hook = Hook(scope, function, whole)
            functions.append(hook)
            added.append((functions, hook))
        yield
    finally:
        for functions, hook in added:
            functions.remove(hook)
        _SCOPES.set(tuple(other for other in _SCOPES.get() if other is not scope))


class Tap(nn.Module):
    """A named point in the model. Its path is the quantity's name: `encoder.3.attention.Q`.

    Editors run first, in the order in which they were attached, and return the new value; watchers receive the result.
    Functions are attached with `attached`, or appended to the lists to apply in every context.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[Watcher] = []
        self.editors: list[Editor] = []

    def forward(self, x: Any) -> Any:
        if self.editors:
            for edit in active(self.editors):
                x = edit(x)
        if self.watchers:
            for watch in active(self.watchers):
                watch(x)
        return x

    # Bypass nn.Module.__call__ and its hooks: an unused tap costs two attribute lookups.
    __call__ = forward

    @property
    def watched(self) -> bool:
        return bool(self.watchers) and bool(active(self.watchers))

    @property
    def edited(self) -> bool:
        return bool(self.editors) and bool(active(self.editors))

    @property
    def used(self) -> bool:
        return self.watched or self.edited

    @property
    def whole(self) -> bool:
        """True if a watcher reads the whole quantity, so that computing it lazily would be slower."""
        return bool(self.watchers) and any(getattr(watch, "whole", False) for watch in active(self.watchers))

    def extra_repr(self) -> str:
        return f"watchers={len(self.watchers)}, editors={len(self.editors)}" if self.watchers or self.editors else ""
