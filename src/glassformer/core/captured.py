"""Functions as TorchScript, whose interpreter calls small operators in less time than Python does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = Lock()


def captured(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function by torch.jit at its first call. Where torch.jit does not work, it runs as plain Python.

    The same operators run in the same order, so results are the same bit for bit; what is saved is Python's part of
    every call: finding the operator and converting its arguments.
    """
    ready: Any = None

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        nonlocal ready
        if ready is None:
            with _LOCK:
                ready = ready or _compiled(function)
        found: R = ready(*arguments, **named)
        return found

    return call


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which torch 2.13 still supports
        try:
            found: Callable[..., Any] = torch.jit.script(unwrap(function))  # which a type checker may have wrapped
        except (RuntimeError, OSError, NotImplementedError):  # an unsupported Python, or no source code
            return function
    return found
