from __future__ import annotations

import torch

from glassformer.lab.comparison.memory import peak

MB = torch.zeros(1).element_size() * 1000 * 250


def test_what_is_held_at_once_counts() -> None:
    make = lambda: torch.zeros(1000, 250)

    def one_after_the_other() -> None:
        for _ in range(3):
            make()

    def together() -> None:
        held = [make() for _ in range(3)]
        assert len(held) == 3

    assert peak(make) == MB
    assert peak(one_after_the_other) == MB
    assert peak(together) == 3 * MB


def test_what_was_there_before_does_not_count() -> None:
    X = torch.randn(1000, 250)
    assert peak(lambda: X.sum()) < 1000


def test_attention_as_a_matrix_is_seen() -> None:
    """n × n numbers at once, inside: what fused attention spares."""
    Q = torch.randn(1, 1, 512, 8)
    explicit = peak(lambda: (Q @ Q.mT).softmax(-1) @ Q)
    fused = peak(lambda: torch.nn.functional.scaled_dot_product_attention(Q, Q, Q))
    assert explicit >= 2 * 512 * 512 * 4
    assert fused < 512 * 512 * 4
