"""Hugging Face's models really in float64: where their code asks for float32 they get float64 instead.

Norms, softmax and rotary angles are raised to float32 there, which is right for half precision; of a model in float64
it loses half of the digits, and a difference of 1e-7 could no longer be told from a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Double(TorchFunctionMode):
    """While it is on, float64 does not fall to float32, and new tensors that want float32 are float64.

    Whole numbers still become float32: T5's borders between buckets depend on its rounding.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        kinds: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        first = args[0] if args and isinstance(args[0], Tensor) else None
        if first is not None and first.dtype != torch.float64:
            return function(*args, **kwargs)
        if function is Tensor.float:
            return first
        args = [_raised(one) for one in args]
        return function(*args, **{name: _raised(one) for name, one in kwargs.items()})


def _raised(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
