"""X → block₀ → block₁ → … → norm: the body of every Transformer, with relative or rotary positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.attention import AttentionConfig, View
from glassformer.nn.blocks import NO_VIEW, Block, BlockCache, BlockConfig, static_cache
from glassformer.nn.cache import LayerCache
from glassformer.nn.flat import forget, run_flat
from glassformer.nn.norm import NormConfig
from glassformer.nn.positions import Biased, Rotary


class Engine(Protocol):
    """Another implementation of a pass through the blocks, set by `runtime.use_engine`."""

    name: str

    def run(
        self,
        stack: Stack,
        X: Tensor,
        view: View,
        memory: Tensor | None,
        memory_view: View,
        cache: list[BlockCache] | None,
    ) -> Tensor | None:
        """Run the blocks, or return None if this engine cannot; the modules then run instead."""


class Stack(nn.Module):
    """A stack of numbered blocks, so that a path reads `encoder.3.attention.A`.

    A relative bias is computed once and shared by all blocks, as in T5; so are rotary angles. With `checkpointing`, the
    backward pass recomputes each block instead of storing its activations (Chen et al. 2016).
    """

    checkpointing = False
    engine: Engine | None = None

    def __init__(
        self,
        block: BlockConfig,
        depth: int,
        *,
        positions: Rotary | Biased | None = None,
        last_norm: NormConfig | None = None,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise ConfigError(f"depth must be at least 1, got {depth}", "choose at least one block")
        _require_fit(positions, block.attention)
        self.depth = depth
        for i in range(depth):
            self.add_module(str(i), Block(block))
        self.rotary = positions if isinstance(positions, Rotary) else None
        self.relative = None if positions is None or isinstance(positions, Rotary) else positions.build()
        self.norm = last_norm.build(block.attention.width) if last_norm is not None else None

    def blocks(self) -> Iterator[Block]:
        return (cast(Block, self.get_submodule(str(i))) for i in range(self.depth))

    def train(self, mode: bool = True) -> Stack:
        """Set training mode. Drops packed copies of the weights, whose version fused optimizers do not increment."""
        if mode != self.training:
            forget(self)
        return super().train(mode)

    def cache(self, room: int) -> list[BlockCache]:
        """Return a cache per block with capacity for the keys and values of `room` positions."""
        return [static_cache(room) for _ in range(self.depth)]

    def forward(
        self,
        X: Float[Tensor, "b t m"],
        view: View = NO_VIEW,
        *,
        positions: Int[Tensor, "..."] | None = None,
        memory: Float[Tensor, "b s n"] | None = None,
        memory_view: View = NO_VIEW,
        cache: list[BlockCache] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Run the blocks. `positions` of X default to counting from 0, or from the length of the cache."""
        if cache is not None and len(cache) != self.depth:
            raise ShapeError(f"there are {len(cache)} caches for {self.depth} blocks", "make them with cache(room)")
        own = cache[0].own if cache is not None else LayerCache()
        t = X.shape[1]
        if self.rotary is not None:
            where = torch.arange(own.length, own.length + t, device=X.device) if positions is None else positions
            view = view._replace(turn=self.rotary.turn(where, X.dtype))
        if self.relative is not None:
            view = view._replace(bias=self.relative(t, own.span(t)).to(X))
        run = run_flat if self.engine is None else self.engine.run
        found = run(self, X, view, memory, memory_view, cache)
        if found is not None:
            return found if self.norm is None else self.norm(found)
        for i, block in enumerate(self.blocks()):
            if self.checkpointing and cache is None and torch.is_grad_enabled():
                X = checkpoint(block, X, view, memory, memory_view, use_reentrant=False)
            else:
                X = block(X, view, memory, memory_view, None if cache is None else cache[i])
        return X if self.norm is None else self.norm(X)


def _require_fit(positions: Rotary | Biased | None, attention: AttentionConfig) -> None:
    """Check positions early: a single bias would broadcast over heads, and too many angles would fail only when run."""
    if isinstance(positions, Rotary):
        if positions.width > attention.key_width:
            fact = f"rotary positions rotate {positions.width} columns of heads of width {attention.key_width}"
            raise ConfigError(fact, f"rotate at most {attention.key_width} columns")
    elif positions is not None and positions.heads != attention.heads:
        fact = f"the relative bias has {positions.heads} heads, the attention has {attention.heads}"
        raise ConfigError(fact, "give both the same number of heads")
