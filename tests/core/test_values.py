from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.values import has_values, is_plain


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


def test_numbers_that_nothing_follows_are_plain() -> None:
    x, graded = torch.zeros(2), torch.zeros(2, requires_grad=True)
    assert is_plain(x)
    assert not is_plain(x, graded)
    assert not is_plain(x.to("meta"))
    with torch.no_grad():
        assert is_plain(x, graded)
    followed: list[bool] = []
    torch.func.vmap(lambda row: (followed.append(is_plain(row)), row)[1])(x)
    assert followed == [False]
