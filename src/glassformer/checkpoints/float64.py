"""Run Hugging Face models entirely in float64: where their code requests float32, it gets float64 instead.

Their code casts norms, softmax and rotary angles to float32, which is right for half precision. In a float64 model it
loses half of the digits, and a difference of 1e-7 could no longer be distinguished from a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Float64Mode(TorchFunctionMode):
    """While active, float64 tensors are not cast to float32, and tensors requested in float32 are created in float64.

    `.float()` on integers still returns float32: it is exact for positions, and T5's bucket boundaries depend on its
    rounding.
    """

    def __enter__(self) -> Self:
        self._single = torch.FloatTensor
        vars(torch)["FloatTensor"] = torch.DoubleTensor  # a class, which no mode intercepts; Marian's sinusoids use it
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
