from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.masks import causal
from glassformer.errors import InputError
from glassformer.lens import trace
from glassformer.lens.margin import margins, margins_of, smallest_change
from glassformer.lens.sensitivity import Layer, scores_at
from glassformer.models import Decoder, decoder


def layer(seed: int, beta: float, *, masked: bool = False, biased: bool = False, t: int = 3, s: int = 4) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (torch.randn(n, 3, dtype=torch.float64, generator=g) for n in (t, s, s))
    bias = torch.randn(t, s, dtype=torch.float64, generator=g) if biased else None
    return Layer(Q, K, V, beta, causal(t, s) if masked else None, bias)


def winner(one: Layer, query: int, key: int, vector: Tensor) -> int:
    """Who wins with key i replaced: from the definition, without any closed form."""
    K = one.K.clone()
    K[key] = vector
    S = one.beta * (K @ one.Q[query])
    if one.bias is not None:
        S = S + one.bias[query]
    return int((S if one.mask is None else S.masked_fill(~one.mask[query], -math.inf)).argmax())


def bisect(moved, high: float) -> float:  # type: ignore[no-untyped-def]
    """The size at which `moved(size)` turns true, ∞ if not up to `high`."""
    if not moved(high):
        return math.inf
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if moved(middle) else (middle, high)
    return high


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.3, -0.8]), st.booleans(), st.booleans())
def test_margins_are_where_bisection_finds_them(seed: int, beta: float, masked: bool, biased: bool) -> None:
    one = layer(seed, beta, masked=masked, biased=biased)
    found = margins_of(one)
    for j in range(3):
        first = int(found.winner[j])
        for i in range(4):
            k = one.K[i]
            distance, alpha = found.distance[j, i].item(), found.alpha[j, i].item()
            # the shortest way is along q: try both senses
            q = one.Q[j] / one.Q[j].norm()
            both = [bisect(lambda r, s=s: winner(one, j, i, k + s * r * q) != first, 100.0) for s in (1.0, -1.0)]  # noqa: B023
            assert min(both) == pytest.approx(distance, rel=1e-9, abs=1e-12)
            scaled = [bisect(lambda r, s=s: winner(one, j, i, (1 + s * r) * k) != first, 1e4) for s in (1.0, -1.0)]  # noqa: B023
            nearest = min(scaled)
            assert nearest == pytest.approx(abs(alpha - 1), rel=1e-8, abs=1e-9)
            if math.isfinite(distance):
                delta = smallest_change(one, j, i)
                assert delta.norm().item() == pytest.approx(distance)
                assert winner(one, j, i, k + 0.999999 * delta) == first
                assert winner(one, j, i, k + 1.000001 * delta) == found.heir[j, i]
                beyond = 1 + 1.000001 * (alpha - 1)
                assert winner(one, j, i, beyond * k) == found.heir[j, i]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_no_shorter_change_does_it(seed: int) -> None:
    one = layer(seed, 0.6, biased=True)
    found = margins_of(one)
    noise = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for i in range(4):
        for step in noise / noise.norm(dim=-1, keepdim=True) * found.distance[0, i] * 0.9999:
            assert winner(one, 0, i, one.K[i] + step) == found.winner[0]


def by_hand(q: list[float], K: list[list[float]], **more: object) -> Layer:
    keys = torch.tensor(K, dtype=torch.float64)
    return Layer(torch.tensor([q], dtype=torch.float64), keys, keys, 1.0, **more)  # type: ignore[arg-type]


def test_cases_by_hand() -> None:
    """q = (1, 0): the scores are the first coordinates 3, 1, −2, 0."""
    found = margins_of(by_hand([1, 0], [[3, 0], [1, 5], [-2, 0], [0, 4]]))
    assert found.winner.tolist() == [0]
    assert found.runner.tolist() == [1]
    assert found.gap.tolist() == [2.0]
    assert found.distance[0].tolist() == [2.0, 2.0, 5.0, 3.0]
    # the winner shrinks to 1/3; the runner-up grows to 3; a negative score turns round; 0 stays 0 whatever its factor
    assert found.alpha[0].tolist() == [pytest.approx(1 / 3), 3.0, -1.5, math.inf]
    assert found.heir[0].tolist() == [1, 1, 2, 3]


def test_a_winner_with_a_negative_score_falls_by_growing() -> None:
    found = margins_of(by_hand([1], [[-1], [-4]]))
    assert found.alpha[0].tolist() == [4.0, 0.25]


def test_nothing_moves_what_cannot_move() -> None:
    mask = torch.tensor([[True, False, True]])
    found = margins_of(by_hand([1, 0], [[3, 0], [9, 0], [1, 0]], mask=mask))
    assert found.winner.tolist() == [0]
    assert found.distance[0].tolist() == [2.0, math.inf, 2.0]
    assert found.alpha[0, 1].item() == math.inf
    assert found.heir[0].tolist() == [2, -1, 2]
    alone = margins_of(by_hand([1], [[3], [9]], mask=torch.tensor([[True, False]])))
    assert alone.distance[0].tolist() == [math.inf, math.inf]
    assert alone.alpha[0].tolist() == [math.inf, math.inf]
    assert alone.runner.tolist() == [-1]
    silent = margins_of(by_hand([0], [[3], [9]], bias=torch.tensor([[1.0, 0.0]], dtype=torch.float64)))
    assert silent.distance[0].tolist() == [math.inf, math.inf]
    assert silent.heir[0].tolist() == [-1, -1]


def test_a_tie_has_no_margin() -> None:
    found = margins_of(by_hand([1], [[2], [2], [0]]))
    assert found.gap.tolist() == [0.0]
    assert found.distance[0].tolist() == [0.0, 0.0, 2.0]
    assert found.alpha[0].tolist() == [1.0, 1.0, math.inf]


def test_the_winner_falls_below_its_own_bias() -> None:
    """S = (1 + 4, 2 + 0): even at α = 0 the bias of key 0 wins, so the factor is below 0."""
    bias = torch.tensor([[4.0, 0.0]], dtype=torch.float64)
    found = margins_of(by_hand([1], [[1], [2]], bias=bias))
    assert found.alpha[0].tolist() == [-2.0, 2.5]


def test_a_real_model() -> None:
    model = Decoder(decoder.tiny_modern(), seed=3).double().eval()
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        model(torch.tensor([[3, 1, 4, 1, 5, 9]]))
    found = margins(run, "decoder.1.attention", 2, 3)
    assert found.distance.shape == (6,)
    assert found.distance[:4].isfinite().all()
    assert found.distance[4:].isinf().all()  # the future is masked
    A = run.part("decoder.1.attention.A", heads=[2], rows=[3])[0, 0, 0]
    assert found.winner == A.argmax()
    one = scores_at(run, "decoder.1.attention").head(0, 2)
    for i in range(4):
        delta = smallest_change(one, 3, i)
        assert winner(one, 3, i, one.K[i] + 1.0001 * delta) == found.heir[i]
        assert winner(one, 3, i, one.K[i] + 0.9999 * delta) == found.winner
    with pytest.raises(InputError, match="there is no query 6: they are 0 to 5"):
        margins(run, "decoder.1.attention", 2, 6)
