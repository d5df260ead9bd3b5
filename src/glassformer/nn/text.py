"""tokens → X → blocks: one side of a text model, its embedding and its stack."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.masks import causal, or_itself
from glassformer.nn.attention import View
from glassformer.nn.blocks import NO_VIEW, BlockCache, BlockConfig
from glassformer.nn.embed import TokenEmbedding
from glassformer.nn.linear import Linear
from glassformer.nn.norm import NormConfig
from glassformer.nn.positions import Added, Biased, Rotary
from glassformer.nn.stack import Stack


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """`positions` are added to the tokens, `relative` act on queries and keys; a norm that is None is not there."""

    vocabulary: int
    depth: int
    block: BlockConfig
    positions: Added | None = None
    relative: Rotary | Biased | None = None
    segments: int = 0
    scale: float = 1.0
    first_norm: NormConfig | None = None
    last_norm: NormConfig | None = None

    @property
    def width(self) -> int:
        return self.block.attention.width


class TextStack(Stack):
    """X = embed(tokens), then the blocks. `real` says which tokens are not padding."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__(config.block, config.depth, positions=config.relative, last_norm=config.last_norm)
        self.config = config
        self.embed = TokenEmbedding(
            config.vocabulary,
            config.width,
            scale=config.scale,
            positions=config.positions,
            segments=config.segments,
            norm=config.first_norm,
            dropout=config.block.dropout,
        )

    def encode(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Every token sees every real token."""
        view = View(mask=None if real is None else real[:, None, None, :])
        return self(self.embed(tokens, None, segments), view)

    def decode(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b s"] | None = None,
        *,
        memory: Float[Tensor, "b n m"] | None = None,
        memory_view: View = NO_VIEW,
        cache: list[BlockCache] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Each token sees itself and the real tokens before it; `real` covers the cached past and these tokens.

        Positions count real tokens only, so a prompt padded on the left answers as it would alone.
        """
        past = cache[0].own.length if cache is not None else 0
        t = tokens.shape[1]
        if real is None:
            where = torch.arange(past, past + t, device=tokens.device)
            view = View(causal=True)
        else:
            where = (real.long().cumsum(-1) - 1).clamp_min(0)[:, past:]
            seen = causal(t, past + t, device=tokens.device) & real[:, None, None, :]
            view = View(mask=or_itself(seen))  # padding on the left sees nothing else, and nobody reads it
        X = self.embed(tokens, where)
        return self(X, view, positions=where, memory=memory, memory_view=memory_view, cache=cache)


class WordHead(nn.Module):
    """logits = scale · W x + b over a vocabulary; tied, W is the embedding's table."""

    def __init__(
        self, vocabulary: int, width: int, *, tied: bool = True, bias: bool = False, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.scale = scale
        self.W = None if tied else Linear(width, vocabulary, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, X: Float[Tensor, "*b m"], table: Float[Tensor, "v m"]) -> Float[Tensor, "*b v"]:
        W = table if self.W is None else self.W.weight
        return nn.functional.linear(X if self.scale == 1.0 else X * self.scale, W, self.bias)
