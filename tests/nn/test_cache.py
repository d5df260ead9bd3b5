from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import masks
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import (
    LayerCache,
    MemoryCache,
    MultiHeadAttention,
    SlidingCache,
    StaticCache,
    View,
    heads,
    initialise,
)

N = 9  # positions in a sequence
splits = st.lists(st.integers(1, N - 1), unique=True).map(lambda cuts: [0, *sorted(cuts), N])


def attention(**options: int) -> MultiHeadAttention:
    layer = MultiHeadAttention(heads(8, 4, **options)).double()
    initialise(layer, 0)
    return layer


def tokens(batch: int = 2, n: int = N) -> Tensor:
    return torch.randn(batch, n, 8, generator=torch.Generator().manual_seed(batch + n), dtype=torch.float64)


def pieces(run: Callable[[int, int], Tensor], split: list[int]) -> Tensor:
    return torch.cat([run(*ends) for ends in pairwise(split)], 1)


@settings(max_examples=30)
@given(splits, st.booleans())
@torch.no_grad()
def test_piece_by_piece_is_all_at_once(split: list[int], grouped: bool) -> None:
    layer, X, cache = attention(kv_heads=2 if grouped else 4), tokens(), StaticCache(N + 3)
    found = pieces(lambda a, b: layer(X[:, a:b], view=View(causal=True), cache=cache), split)
    torch.testing.assert_close(found, layer(X, view=View(causal=True)), rtol=0, atol=1e-12)
    assert cache.length == N


@settings(max_examples=30)
@given(splits, st.integers(1, N + 2))
@torch.no_grad()
def test_a_window_needs_no_more_than_it_shows(split: list[int], width: int) -> None:
    layer, X, cache = attention(), tokens(), SlidingCache(width - 1)
    wanted = layer(X, view=View(mask=masks.window(N, width=width, causal=True)))

    def run(a: int, b: int) -> Tensor:
        mask = masks.window(b - a, cache.span(b - a), width=width, causal=True)
        return layer(X[:, a:b], view=View(mask=mask), cache=cache)

    torch.testing.assert_close(pieces(run, split), wanted, rtol=0, atol=1e-12)
    assert cache.length == N
    assert cache.kept()[0].shape[2] == min(N, width - 1)


@torch.no_grad()
def test_a_memory_is_projected_once() -> None:
    layer, X, Z, cache = attention(), tokens(), tokens(n=5), MemoryCache()
    seen: list[Tensor] = []
    layer.K.watchers.append(seen.append)
    first = layer(X, Z, cache=cache)
    assert cache.complete
    assert cache.length == 5
    again = layer(X, Z * 100, cache=cache)  # not looked at
    assert torch.equal(first, again)
    assert len(seen) == 1


@pytest.mark.parametrize("make", [lambda: StaticCache(8), lambda: SlidingCache(8), MemoryCache])
@torch.no_grad()
def test_rows_can_go_on_from_one_another(make: Callable[[], LayerCache]) -> None:
    K, V = torch.randn(3, 2, 4, 5), torch.randn(3, 2, 4, 6)
    cache = make()
    cache.reorder(torch.tensor([0]))  # an empty past stays empty
    cache.append(K, V)
    rows = torch.tensor([2, 2, 0, 1])
    cache.reorder(rows)
    kept = cache.kept()
    assert torch.equal(kept[0], K[rows])
    assert torch.equal(kept[1], V[rows])
    if not cache.complete:
        more = torch.randn(4, 2, 1, 5), torch.randn(4, 2, 1, 6)
        assert torch.equal(cache.append(*more)[0], torch.cat([K[rows], more[0]], 2))


@torch.no_grad()
def test_a_static_cache_sets_its_room_aside_once() -> None:
    cache = StaticCache(6)
    first = cache.append(torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 4))
    second = cache.append(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 4))
    assert [pair.shape[2] for pair in (*first, *second)] == [2, 2, 5, 5]
    assert first[0].untyped_storage().data_ptr() == second[0].untyped_storage().data_ptr()
    assert cache.span(1) == 6


def test_gradients_pass_through_one_append() -> None:
    layer, X = attention(), tokens().requires_grad_()
    found = layer(X, view=View(causal=True), cache=StaticCache(N))
    (wanted,) = torch.autograd.grad(layer(X, view=View(causal=True)).square().sum(), X)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), X)[0], wanted)


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    part = torch.zeros(2, 1, 3, 4)
    full = StaticCache(4)
    full.append(part, part)
    room = "position 6 came to a cache of 4: make it longer, or stop earlier"
    refused(ShapeError, room, lambda: full.append(part, part))
    for cache in (StaticCache(9), SlidingCache(9)):
        cache.append(part, part)
        text = "1 sequences go on from a past of 2: reorder the cache, or start a new one"
        refused(ShapeError, text, lambda cache=cache: cache.append(part[:1], part[:1]))
    refused(ShapeError, "the cache is empty: append keys and values first", lambda: StaticCache(4).kept())
    refused(ConfigError, "a window of -1 positions: choose 0 or more", lambda: SlidingCache(-1))
    with pytest.raises(TypeError, match="choose StaticCache, SlidingCache or MemoryCache"):
        LayerCache().append(part, part)
