"""Counting multiplications with torch's FLOP counter while a module runs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from glassformer.lens import attention_layers, edit


def multiplications(model: nn.Module, *inputs: Any) -> int:
    """Count the multiply-adds of matrix products and convolutions; attention runs explicitly, so it is included."""
    from torch.utils.flop_counter import FlopCounterMode  # imported here because it takes seconds

    with ExitStack() as stack:
        for path in attention_layers(model):
            stack.enter_context(edit(model, f"{path}.A".removeprefix("."), lambda A: A))
        counter = FlopCounterMode(display=False)
        stack.enter_context(torch.no_grad())
        stack.enter_context(counter)
        model(*inputs)
    return int(counter.get_total_flops()) // 2
