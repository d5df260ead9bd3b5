"""Stacks over text: padding, sliding windows and causality."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError, MaskError, ShapeError
from glassformer.nn import (
    Alibi,
    BlockConfig,
    FeedForwardConfig,
    Learned,
    NormConfig,
    Relative,
    Rotary,
    Sinusoidal,
    SlidingCache,
    heads,
    initialise,
)
from glassformer.nn.text import TextConfig, TextStack, WordHead

N = 8
KINDS: dict[str, dict[str, object]] = {
    "none": {},
    "learned": {"positions": Learned(length=N)},
    "sinusoidal": {"positions": Sinusoidal()},
    "rotary": {"relative": Rotary(width=4)},
    "t5": {"relative": Relative(heads=2, buckets=8, limit=6, bidirectional=False)},
    "clipped": {"relative": Relative(heads=2, kind="clipped", limit=3)},
    "alibi": {"relative": Alibi(heads=2)},
}
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]])


@cache
def build(kind: str, **options: object) -> TextStack:
    block = BlockConfig(attention=heads(8, 2), ffn=FeedForwardConfig(width=8, hidden=12))
    stack = TextStack(
        TextConfig(vocabulary=10, depth=2, block=block, last_norm=NormConfig(), **{**KINDS[kind], **options})  # type: ignore[arg-type]
    ).double()
    initialise(stack, 0)
    return stack


def padded(lengths: list[int], *, left: bool) -> tuple[Tensor, Tensor]:
    """The first `length` tokens of each row, filled up to N with token 0 on one side."""
    tokens, real = torch.zeros(len(lengths), N, dtype=torch.long), torch.zeros(len(lengths), N, dtype=torch.bool)
    for i, length in enumerate(lengths):
        where = slice(N - length, N) if left else slice(length)
        tokens[i, where], real[i, where] = TOKENS[i, :length], True
    return tokens, real


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_on_the_right_changes_nothing_of_what_is_real(kind: str) -> None:
    stack = build(kind)
    tokens, real = padded([8, 5], left=False)
    for run in (stack.encode, stack.decode):
        X = run(tokens, real)
        for i, length in enumerate((8, 5)):
            torch.testing.assert_close(X[i, :length], run(TOKENS[i : i + 1, :length])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_left_padding_does_not_change_the_continuation(kind: str) -> None:
    stack = build(kind)
    tokens, real = padded([4, 2], left=True)
    tokens, real = tokens[:, -4:], real[:, -4:]
    past = stack.cache(N)
    X = stack.decode(tokens, real, cache=past)
    for i, length in enumerate((4, 2)):
        torch.testing.assert_close(X[i, 4 - length :], stack.decode(TOKENS[i : i + 1, :length])[0], rtol=0, atol=1e-12)
    for step in range(3):  # what comes next is real
        real = torch.cat([real, torch.ones(2, 1, dtype=torch.bool)], 1)
        new = torch.stack([TOKENS[i, length + step] for i, length in enumerate((4, 2))])[:, None]
        X = stack.decode(new, real, cache=past)
        for i, length in enumerate((4, 2)):
            alone = stack.decode(TOKENS[i : i + 1, : length + step + 1])
            torch.testing.assert_close(X[i, 0], alone[0, -1], rtol=0, atol=1e-12)


@settings(max_examples=12)
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from([None, 1, 3, 20]),
    st.lists(st.integers(1, N - 1), unique=True).map(sorted),
)
@torch.no_grad()
def test_decoding_in_pieces_equals_one_pass(kind: str, window: int | None, cuts: list[int]) -> None:
    stack = build(kind, window=window)
    wanted = stack.decode(TOKENS)
    past = stack.cache(N)
    found = torch.cat([stack.decode(part, cache=past) for part in TOKENS.tensor_split(cuts, 1)], 1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    real, past = torch.ones_like(TOKENS, dtype=torch.bool), stack.cache(N)
    ends = [0, *cuts, N]
    runs = [stack.decode(TOKENS[:, a:b], real[:, :b], cache=past) for a, b in pairwise(ends)]
    torch.testing.assert_close(torch.cat(runs, 1), wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_window_sees_so_far_back_and_its_cache_keeps_no_more() -> None:
    """One block with a window of 3: token t is moved by tokens t−2, t−1 and t alone."""
    block = BlockConfig(attention=heads(8, 2), ffn=FeedForwardConfig(width=8, hidden=12))
    stack = TextStack(TextConfig(vocabulary=10, depth=1, block=block, window=3)).double()
    initialise(stack, 0)
    X = stack.decode(TOKENS)
    for t in range(N):
        other = TOKENS.clone()
        other[:, t] = 0
        moved = (stack.decode(other) - X).abs().amax((0, 2)) > 1e-9
        assert moved.nonzero().flatten().tolist() == list(range(t, min(t + 3, N)))
    past = stack.cache(N)
    assert isinstance(past[0].own, SlidingCache)
    stack.decode(TOKENS, cache=past)
    assert past[0].own.kept()[0].shape[2] == 2


@torch.no_grad()
def test_left_padding_and_a_window() -> None:
    stack = build("rotary", window=2)
    tokens, real = padded([8, 3], left=True)
    X = stack.decode(tokens, real)
    torch.testing.assert_close(X[1, 5:], stack.decode(TOKENS[1:, :3])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_no_token_sees_the_future(kind: str) -> None:
    stack = build(kind)
    X = stack.decode(TOKENS)
    for t in range(N):
        other = TOKENS.clone()
        other[:, t] = 0
        torch.testing.assert_close(stack.decode(other)[:, :t], X[:, :t], rtol=0, atol=0)
        assert not torch.allclose(stack.decode(other)[:, t], X[:, t])


def test_every_token_of_an_encoder_sees_every_other() -> None:
    stack = build("learned")
    X = stack.embed(TOKENS).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(stack(X)[:, 0].square().sum(), X)
    assert (gradient.abs().sum(-1) > 0).all()


def test_segments_reach_the_embedding() -> None:
    stack = build("learned", segments=2, first_norm=NormConfig())
    kinds = torch.ones_like(TOKENS)
    torch.testing.assert_close(stack.encode(TOKENS, None, kinds), stack(stack.embed(TOKENS, None, kinds)))
    assert not torch.allclose(stack.encode(TOKENS, None, kinds), stack.encode(TOKENS))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_word_head(tied: bool, bias: bool) -> None:
    head = WordHead(5, 3, tied=tied, bias=bias, scale=0.5)
    initialise(head, 0)
    if head.bias is not None:
        torch.nn.init.ones_(head.bias)
    X, table = torch.randn(2, 4, 3), torch.randn(5, 3)
    W = table if head.W is None else head.W.weight
    torch.testing.assert_close(head(X, table), 0.5 * X @ W.T + (1 if bias else 0))
    assert set(head.state_dict()) == ({"bias"} if bias else set()) | (set() if tied else {"W.weight"})


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    stack, real = build("learned"), torch.ones(2, N, dtype=torch.bool)
    refused(
        ShapeError,
        "real is (2, 7) for 2 × 8 tokens after 0 cached ones: give (2, 8): one value per token, cached tokens included",
        lambda: stack.decode(TOKENS, real[:, :7]),
    )
    refused(MaskError, "a mask of shape (2, 1, 1, 7) does not fit scores", lambda: stack.encode(TOKENS, real[:, :7]))
    blind = real.clone()
    blind[1] = False
    nothing = "every query of batch 1 may attend to nothing: allow each query at least one key, or remove the query"
    refused(MaskError, nothing, lambda: stack.encode(TOKENS, blind))
    refused(MaskError, "the mask has dtype int64: give a boolean mask", lambda: stack.encode(TOKENS, real.long()))
    refused(MaskError, "a mask of int64 is not boolean", lambda: stack.decode(TOKENS, real.long()))
    long = torch.zeros(1, N + 1, dtype=torch.long)
    refused(ShapeError, "position 8 is beyond the 8 learned positions: shorten", lambda: stack.encode(long))
    window = "window must be at least 1, got 0: choose at least 1, or None"
    refused(ConfigError, window, lambda: build("none", window=0))
