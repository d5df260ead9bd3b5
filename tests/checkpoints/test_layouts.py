"""Every layout is its own inverse, and its shapes are what the published code has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.checkpoints.layouts import Interleaved, Joined, Layout, Reshaped, RowRange, Same, Stacked, Transposed
from glassformer.core.rotary import rotary_angles, rotate

W = torch.arange(24.0).view(6, 4)


@pytest.mark.parametrize(
    ("layout", "ours", "shapes"),
    [
        (Same(), [W], [(6, 4)]),
        (Transposed(), [W], [(4, 6)]),
        (Joined(), [W, W[:2], W + 1], [(14, 4)]),
        (Joined(transposed=True), [W, W[:2], W + 1], [(4, 14)]),
        (Joined(), [W[0], W[1]], [(8,)]),
        (Stacked(2), [W], [(3, 4), (3, 4)]),
        (Reshaped(lambda c: (6, 2, c)), [W], [(6, 2, 2)]),
        (RowRange(lambda c: (1, c, 2)), [W[:2]], [(1, 2, 2), (1, 2, 2)]),
        (Interleaved(lambda c: 1), [W], [(6, 4)]),
        (Interleaved(lambda c: 3), [W], [(6, 4)]),
    ],
)
def test_there_and_back(layout: Layout, ours: Sequence[Tensor], shapes: list[tuple[int, ...]]) -> None:
    theirs = layout.write(ours, 2)
    assert [tuple(tensor.shape) for tensor in theirs] == shapes
    back = layout.read(theirs, [tuple(tensor.shape) for tensor in ours], 2)
    assert all(torch.equal(a, b) for a, b in zip(ours, back, strict=True))
    on_meta = layout.write([tensor.to("meta") for tensor in ours], 2)
    assert [tuple(tensor.shape) for tensor in on_meta] == shapes


@given(heads=st.integers(1, 4), half=st.integers(1, 4), seed=st.integers(0, 99))
def test_interleaved_is_the_other_way_to_turn(heads: int, half: int, seed: int) -> None:
    """Turning pairs (2i, 2i+1) of their queries gives the scores that turning (i, i + d/2) of ours gives."""
    generator = torch.Generator().manual_seed(seed)
    d, m, t = 2 * half, 5, 3
    WQ, WK = (torch.randn(heads * d, m, generator=generator, dtype=torch.float64) for _ in "QK")
    X = torch.randn(t, m, generator=generator, dtype=torch.float64)
    cos, sin = rotary_angles(torch.arange(t), d, dtype=torch.float64)

    def scores(WQ: Tensor, WK: Tensor, layout: str) -> Tensor:
        Q, K = ((X @ W.T).view(t, heads, d).transpose(0, 1) for W in (WQ, WK))
        return rotate(Q, cos, sin, layout=layout) @ rotate(K, cos, sin, layout=layout).mT

    theirs = Interleaved(lambda c: heads).write([WQ, WK], None)
    torch.testing.assert_close(scores(*theirs, "interleaved"), scores(WQ, WK, "halves"))
