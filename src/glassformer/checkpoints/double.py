"""Hugging Face's models really in float64: where their code asks for float32 they get float64 instead.

Norms, softmax and rotary angles are raised to float32 there, which is right for half precision; of a model in float64
it loses half of the digits, and a difference of 1e-7 could no longer be told from a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Double(TorchFunctionMode):
    """While it is on, float64 does not fall to float32, and new tensors that want float32 are float64.

    `.float()` of whole numbers still gives float32: it is exact for positions, and T5's borders between buckets depend
    on its rounding.
    """

    def __enter__(self) -> Self:
        self._single = torch.FloatTensor
        vars(torch)["FloatTensor"] = torch.DoubleTensor  # a class, which no mode sees: Marian's sines come from it
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        vars(torch)["FloatTensor"] = self._single

    def __torch_function__(
        self,
        function: Callable[..., Any],
        kinds: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is Tensor.float:
            return args[0] if args[0].dtype == torch.float64 else function(*args, **kwargs)
        args = [_raised(one) for one in args]
        return function(*args, **{name: _raised(one) for name, one in kwargs.items()})


def _raised(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
