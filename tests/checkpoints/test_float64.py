"""While it is on, nothing falls to float32."""

from __future__ import annotations

import torch
from torch.nn.functional import softmax

from glassformer.checkpoints.float64 import Float64Mode


def test_requests_for_float32_get_float64() -> None:
    x = torch.tensor([1 / 3], dtype=torch.float64)
    single = torch.FloatTensor
    with Float64Mode():
        assert x.float().dtype == torch.float64
        assert x.to(torch.float32).dtype == torch.float64
        assert x.to(dtype=torch.float).dtype == torch.float64
        assert softmax(x, -1, dtype=torch.float32).dtype == torch.float64
        assert torch.arange(3, dtype=torch.float).dtype == torch.float64
        assert torch.arange(3).to(dtype=torch.float).dtype == torch.float64
        assert torch.arange(3).float().dtype == torch.float32
        assert torch.FloatTensor([1.0]).dtype == torch.float64
    assert torch.FloatTensor is single
    assert x.float().dtype == torch.float32
