"""Key-value caches and streams give what one pass over the whole input gives."""

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
    Alibi,
    BlockConfig,
    FeedForwardConfig,
    LayerCache,
    MemoryCache,
    MultiHeadAttention,
    NormConfig,
    Relative,
    Rotary,
    SlidingCache,
    Stack,
    StaticCache,
    View,
    heads,
    initialise,
)
from glassformer.nn.streaming import Chunks, StackStream

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
def test_caching_in_pieces_equals_one_pass(split: list[int], grouped: bool) -> None:
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
    room = "the cache has room for 4 positions, got 6: create a longer cache, or generate fewer tokens"
    refused(ShapeError, room, lambda: full.append(part, part))
    for cache in (StaticCache(9), SlidingCache(9)):
        cache.append(part, part)
        text = "the cache holds 2 sequences, got 1: reorder the cache, or start a new one"
        refused(ShapeError, text, lambda cache=cache: cache.append(part[:1], part[:1]))
    refused(ShapeError, "the cache is empty: append keys and values first", lambda: StaticCache(4).kept())
    refused(ConfigError, "window must be at least 0, got -1: choose 0 or more", lambda: SlidingCache(-1))
    with pytest.raises(TypeError, match="choose StaticCache, SlidingCache or MemoryCache"):
        LayerCache().append(part, part)


POSITIONS = {
    "rotary": Rotary(width=4),
    "alibi": Alibi(heads=2),
    "t5": Relative(heads=2, buckets=8, limit=16),
    "clipped": Relative(heads=2, kind="clipped", limit=3),
    "none": None,
}
Sizes = tuple[int, int, int]
sizes = st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(0, 7))
cuts = st.lists(st.integers(0, 9), max_size=10)


def build(kind: str = "rotary", depth: int = 2, place: str = "pre") -> Stack:
    attention, ffn = heads(8, 2, kv_heads=1), FeedForwardConfig(width=8, hidden=12)
    block = BlockConfig(attention=attention, ffn=ffn, place=place)  # type: ignore[arg-type]
    stack = Stack(block, depth, positions=POSITIONS[kind], last_norm=NormConfig()).double()
    initialise(stack, 0)
    return stack


def chunks_of(drawn: Sizes) -> Chunks:
    chunk, left, right = drawn
    return Chunks(chunk=chunk, left=left, right=right)


def vectors(t: int, seed: int = 0, b: int = 2) -> Tensor:
    return torch.randn(b, t, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def offline(stack: Stack, chunks: Chunks, X: Tensor) -> Tensor:
    return stack(X, View(mask=chunks.mask(X.shape[1])))


@torch.no_grad()
def streamed(stack: Stack, chunks: Chunks, X: Tensor, pieces: list[int]) -> Tensor:
    stream, out, fed = StackStream(stack, chunks), [], 0
    for size in pieces:
        out.append(stream.step(X[:, fed : fed + size]))
        fed = min(X.shape[1], fed + size)
    return torch.cat([*out, stream.step(X[:, fed:], end=True)], 1)


@pytest.mark.variants(2)
@pytest.mark.parametrize("kind", POSITIONS)
@settings(max_examples=12)
@given(drawn=sizes, t=st.integers(1, 40), pieces=cuts, depth=st.integers(1, 3), place=st.sampled_from(["pre", "post"]))
def test_a_stream_equals_the_offline_masked_pass(
    kind: str, drawn: Sizes, t: int, pieces: list[int], depth: int, place: str
) -> None:
    stack, chunks, X = build(kind, depth, place), chunks_of(drawn), vectors(t)
    torch.testing.assert_close(streamed(stack, chunks, X, pieces), offline(stack, chunks, X), atol=1e-10, rtol=0)


@settings(max_examples=15)
@given(drawn=sizes, depth=st.integers(1, 3), p=st.integers(0, 12))
def test_frames_wait_for_the_declared_look_ahead_and_no_longer(drawn: Sizes, depth: int, p: int) -> None:
    stack, chunks = build(depth=depth), chunks_of(drawn)
    heard = (p // chunks.chunk + 1) * chunks.chunk + chunks.ahead(depth)  # so many frames, no more
    X = vectors(heard + 3)
    Y = offline(stack, chunks, X)[:, p]
    later, last = X.clone(), X.clone()
    later[:, heard:] += 1
    last[:, heard - 1 :, 0] += 1
    assert torch.equal(offline(stack, chunks, later)[:, p], Y)
    assert not torch.allclose(offline(stack, chunks, last)[:, p], Y, atol=1e-14, rtol=0), "the bound is tight"
    stream = StackStream(stack, chunks)
    with torch.no_grad():
        assert stream.step(X[:, : heard - 1]).shape[1] <= p
        stream.step(X[:, heard - 1 : heard])
        assert stream.pasts[-1].done > p


@pytest.mark.parametrize("drawn", [(4, 6, 3), (1, 5, 0), (3, 0, 8)])
@torch.no_grad()
def test_what_is_held_does_not_grow(drawn: Sizes) -> None:
    stack, chunks = build(depth=3), chunks_of(drawn)
    stream, held = StackStream(stack, chunks), []
    for i in range(24 * chunks.chunk):
        stream.step(vectors(1, seed=i))
        held.append(stream.stored_values)
    assert max(held[len(held) // 2 :]) == max(held[len(held) // 4 : len(held) // 2])


def test_the_sum_of_look_ahead_over_blocks() -> None:
    assert Chunks(chunk=4, left=0).ahead(12) == 0
    assert Chunks(chunk=1, left=0, right=1).ahead(3) == 3
    assert Chunks(chunk=4, left=0, right=4).ahead(3) == 12
    assert Chunks(chunk=4, left=0, right=1).ahead(3) == 9  # a glimpse of the next chunk is a view of all it saw
    assert Chunks(chunk=4, left=0, right=1).known(8) == 4


@torch.no_grad()
def test_an_hour_into_the_stream_the_numbers_are_the_same() -> None:
    """Positions are relative: frame 90,000 sees what frame 0 would."""
    stack, chunks, X = build(), Chunks(chunk=4, left=4), vectors(8)
    stream, late = StackStream(stack, chunks), StackStream(stack, chunks)
    for past in late.pasts:
        past.cache.length = past.done = 90_000
    torch.testing.assert_close(late.step(X, end=True), stream.step(X, end=True), atol=1e-9, rtol=0)


@torch.no_grad()
def test_taps_work_while_streaming() -> None:
    stack, chunks, X = build(), Chunks(chunk=3, left=4, right=2), vectors(11)
    blocks = list(stack.blocks())
    blocks[1].X.editors.append(lambda x: 2 * x)
    blocks[0].attention.A.editors.append(lambda A: A.flip(1))
    seen: list[Tensor] = []
    blocks[1].O.watchers.append(seen.append)
    Y = streamed(stack, chunks, X, [5, 4])
    pieces = torch.cat(seen, 1)
    seen.clear()
    torch.testing.assert_close(Y, offline(stack, chunks, X), atol=1e-10, rtol=0)
    torch.testing.assert_close(pieces, seen[0], atol=1e-10, rtol=0)


@torch.no_grad()
def test_nothing_in_nothing_out() -> None:
    stream = StackStream(build(), Chunks(chunk=3, left=4, right=2))
    assert stream.step(vectors(0)).shape == (2, 0, 8)
    assert stream.step(vectors(0), end=True).shape == (2, 0, 8)


@pytest.mark.parametrize("drawn", [(0, 1, 1), (1, -1, 0), (1, 0, -1)])
def test_chunks_that_show_nothing_are_an_error(drawn: Sizes) -> None:
    with pytest.raises(ConfigError, match="are not a valid window"):
        chunks_of(drawn)


def test_cross_attention_cannot_stream() -> None:
    attention = heads(8, 2)
    block = BlockConfig(attention=attention, ffn=FeedForwardConfig(width=8, hidden=8), cross=attention)
    with pytest.raises(ConfigError, match="cross-attention cannot stream"):
        StackStream(Stack(block, 1), Chunks(chunk=1, left=1))
