from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import (
    Alibi,
    BlockConfig,
    FeedForwardConfig,
    NormConfig,
    Relative,
    Rotary,
    Stack,
    Tap,
    Turn,
    View,
    heads,
    initialise,
)

KINDS = {
    "rotary": Rotary(width=4),
    "relative": Relative(heads=2, buckets=8, limit=6, bidirectional=False),
    "clipped": Relative(heads=2, kind="clipped", limit=3),
    "alibi": Alibi(heads=2),
}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(positions: Rotary | Relative | Alibi | None = None, *, depth: int = 2, cross: bool = False) -> Stack:
    attention = heads(8, 2)
    block = BlockConfig(
        attention=attention, cross=attention if cross else None, ffn=FeedForwardConfig(width=8, hidden=12)
    )
    stack = Stack(block, depth, positions=positions, last_norm=NormConfig()).double()
    initialise(stack, 0)
    return stack


def test_blocks_one_after_the_other_then_the_norm() -> None:
    stack, X = build(depth=3), normal(2, 4, 8)
    Y = X
    for i in range(3):
        Y = stack.get_submodule(str(i))(Y)
    assert stack.norm is not None
    torch.testing.assert_close(stack(X), stack.norm(Y))
    assert len(list(stack.blocks())) == 3


def test_paths_are_numbers() -> None:
    paths = [name for name, module in build(depth=2).named_modules() if isinstance(module, Tap)]
    assert "1.attention.A" in paths
    assert "1.ffn.F" in paths


@given(st.permutations(range(5)))
@settings(max_examples=20)
def test_without_positions_order_does_not_matter(order: list[int]) -> None:
    stack, X = build(), normal(2, 5, 8)
    torch.testing.assert_close(stack(X[:, order]), stack(X)[:, order])


@pytest.mark.parametrize("kind", KINDS)
def test_with_positions_order_matters_and_only_distances_do(kind: str) -> None:
    stack, X = build(KINDS[kind]), normal(1, 4, 8)
    order = [3, 1, 0, 2]
    assert not torch.allclose(stack(X[:, order]), stack(X)[:, order], atol=1e-3)
    # Two copies side by side, each of which sees itself alone, are one copy twice.
    twice = torch.kron(torch.eye(2), torch.ones(4, 4)).bool()
    torch.testing.assert_close(stack(torch.cat([X, X], 1), View(mask=twice)), torch.cat([stack(X)] * 2, 1))


def test_a_bias_is_made_once_and_used_by_every_block() -> None:
    relative = KINDS["relative"]
    assert isinstance(relative, Relative)
    stack, X = build(relative), normal(2, 4, 8)
    assert stack.relative is not None
    bare = build()
    bare.load_state_dict({k: v for k, v in stack.state_dict().items() if not k.startswith("relative")})
    torch.testing.assert_close(stack(X), bare(X, View(bias=stack.relative(4, 4))))


def test_rotary_positions_count_from_0_unless_given() -> None:
    stack, X = build(KINDS["rotary"]), normal(2, 4, 8)
    torch.testing.assert_close(stack(X, positions=torch.arange(4)), stack(X))
    stretched = torch.tensor([0, 2, 4, 6])
    turn = Rotary(width=4).turn(stretched, torch.float64)
    assert isinstance(turn, Turn)
    bare = build()
    bare.load_state_dict(stack.state_dict())
    torch.testing.assert_close(stack(X, positions=stretched), bare(X, View(turn=turn)))


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("split", [[7], [3, 4], [1] * 7, [2, 1, 4]])
@torch.no_grad()
def test_piece_by_piece_is_all_at_once(kind: str | None, split: list[int]) -> None:
    stack, X, Z = build(KINDS[kind] if kind else None, cross=True), normal(2, 7, 8), normal(2, 3, 8, seed=1)
    wanted = stack(X, View(causal=True), memory=Z)
    cache = stack.cache(9)
    found = torch.cat([stack(part, View(causal=True), memory=Z, cache=cache) for part in X.split(split, 1)], 1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_positions_follow_the_models_number_type(kind: str, dtype: torch.dtype) -> None:
    stack = build(KINDS[kind]).to(dtype)
    assert stack(normal(1, 3, 8).to(dtype)).dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_weights_can_be_put_into_a_stack_made_on_the_meta_device(kind: str) -> None:
    stack, X = build(KINDS[kind]), normal(1, 3, 8)
    with torch.device("meta"):
        empty = build(KINDS[kind])
    empty.load_state_dict(stack.state_dict(), assign=True)
    assert torch.equal(empty(X), stack(X))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, "a stack of 0 blocks: choose at least one", lambda: build(depth=0))
    stack, X = build(depth=2), normal(1, 3, 8)
    text = "1 caches for 2 blocks: make them with cache(room)"
    refused(ShapeError, text, lambda: stack(X, cache=stack.cache(4)[:1]))
    refused(ShapeError, "the input has width 7, the norm 8: give it vectors of", lambda: stack(X[..., :7]))
    block = stack.get_submodule("0").config
    wide = "rotary positions turn 6 columns of heads that are 4 wide: turn at most 4"
    refused(ConfigError, wide, lambda: Stack(block, 1, positions=Rotary(width=6)))
    for bias in (Alibi(heads=1), Relative(heads=1)):  # a bias for one head would fit any number of them
        text = "a relative bias for 1 heads in blocks of 2: give it as many heads as attention has"
        refused(ConfigError, text, lambda bias=bias: Stack(block, 1, positions=bias))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_checkpointing_gives_the_same_gradients_and_remembers_less(dropout: float) -> None:
    attention = heads(8, 2)
    block = BlockConfig(attention=attention, ffn=FeedForwardConfig(width=8, hidden=64), dropout=dropout)
    stack = Stack(block, 3, positions=KINDS["rotary"], last_norm=NormConfig()).double()
    initialise(stack, 0)
    found, remembered = [], []
    for stack.checkpointing in (False, True):
        X = normal(2, 5, 8).requires_grad_()
        sizes: list[int] = []
        torch.manual_seed(0)
        with torch.random.fork_rng(), torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, sizes=sizes: (sizes.append(tensor.numel()), tensor)[1], lambda tensor: tensor
        ):
            Y = stack(X)
        Y.square().sum().backward()
        found.append([Y.detach(), X.grad, *(weight.grad.clone() for weight in stack.parameters())])
        remembered.append(sum(sizes))
        stack.zero_grad()
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    assert remembered[1] < remembered[0] / 3
    with torch.no_grad():
        assert not stack(normal(2, 5, 8)).requires_grad
