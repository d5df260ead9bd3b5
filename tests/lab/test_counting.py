from __future__ import annotations

import torch

from glassformer.lab.counting import multiplications
from glassformer.nn import Linear, MultiHeadAttention, heads


def test_a_linear_layer() -> None:
    assert multiplications(Linear(3, 5), torch.zeros(2, 7, 3)) == 2 * 7 * 3 * 5


def test_attention_counts_its_scores_too() -> None:
    layer = MultiHeadAttention(heads(8, 2))
    assert multiplications(layer, torch.zeros(1, 40, 8)) == 4 * 40 * 64 + 2 * 1600 * 8
    assert not layer.A.edited
