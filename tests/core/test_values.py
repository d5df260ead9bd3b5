from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.values import has_values


def test_a_tensor_of_numbers_has_values() -> None:
    assert has_values(torch.zeros(2))
    assert not has_values(torch.zeros(2, device="meta"))


def test_a_traced_tensor_has_none() -> None:
    seen = []

    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(has_values(x))
            return x + 1

    torch.export.export(Looks(), (torch.zeros(2),), strict=False)
    assert seen
    assert not any(seen)
