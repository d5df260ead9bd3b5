from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.nn import Alibi, BlockConfig, FeedForwardConfig, NormConfig, Relative, Rotary, Stack, View, heads
from glassformer.nn.linear import initialise
from glassformer.nn.streaming import Chunks, StackStream

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


@pytest.mark.parametrize("kind", POSITIONS)
@settings(max_examples=25)
@given(drawn=sizes, t=st.integers(1, 40), pieces=cuts, depth=st.integers(1, 3), place=st.sampled_from(["pre", "post"]))
def test_a_stream_equals_the_offline_masked_pass(
    kind: str, drawn: Sizes, t: int, pieces: list[int], depth: int, place: str
) -> None:
    stack, chunks, X = build(kind, depth, place), chunks_of(drawn), vectors(t)
    torch.testing.assert_close(streamed(stack, chunks, X, pieces), offline(stack, chunks, X), atol=1e-10, rtol=0)


@settings(max_examples=50)
@given(drawn=sizes, depth=st.integers(1, 3), p=st.integers(0, 12))
def test_no_frame_hears_further_than_said_and_is_out_when_it_has_heard(drawn: Sizes, depth: int, p: int) -> None:
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
    for i in range(60 * chunks.chunk):
        stream.step(vectors(1, seed=i))
        held.append(stream.held)
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
    with pytest.raises(ConfigError, match="describe no view"):
        chunks_of(drawn)


def test_cross_attention_cannot_stream() -> None:
    attention = heads(8, 2)
    block = BlockConfig(attention=attention, ffn=FeedForwardConfig(width=8, hidden=8), cross=attention)
    with pytest.raises(ConfigError, match="cross-attention cannot stream"):
        StackStream(Stack(block, 1), Chunks(chunk=1, left=1))
