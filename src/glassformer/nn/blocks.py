"""Y = X + attention(norm X), O = Y + ffn(norm Y) (pre-norm), or norm(X + attention X) … (post-norm): one block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.core.attention import require_dropout
from glassformer.errors import ConfigError, InputError
from glassformer.nn.attention import AttentionConfig, MultiHeadAttention, View
from glassformer.nn.cache import LayerCache, MemoryCache, SlidingCache, StaticCache
from glassformer.nn.feedforward import FeedForward, FeedForwardConfig
from glassformer.nn.linear import Dropout
from glassformer.nn.norm import NormConfig
from glassformer.nn.tap import Tap

NO_VIEW = View()


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Configuration of a block. `cross` is attention to a memory; `gain` is the initial LayerScale of each branch.

    `place`: norms before each branch ("pre"), or after adding it ("post").
    """

    attention: AttentionConfig
    ffn: FeedForwardConfig
    cross: AttentionConfig | None = None
    norm: NormConfig = NormConfig()
    place: Literal["pre", "post"] = "pre"
    dropout: float = 0.0
    gain: float | None = None

    def __post_init__(self) -> None:
        if self.place not in ("pre", "post"):
            raise ConfigError(
                f"norm placement {self.place!r} is unknown", "choose pre (before each branch) or post (after it)"
            )
        widths = {self.attention.width, self.ffn.width} | ({self.cross.width} if self.cross else set())
        if len(widths) > 1:
            raise ConfigError(
                f"the parts of a block have different widths {sorted(widths)}", "give all of them the model's width"
            )
        require_dropout(self.dropout)


class Gain(nn.Module):
    """y = λ ⊙ x: a learned scale on a residual branch (Touvron 2021, "LayerScale")."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.lam = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        return x * self.lam


class Residual(nn.Module):
    """X + branch(norm X) (pre-norm), or norm(X + branch X) (post-norm)."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        width = config.attention.width
        self.norm = config.norm.build(width)
        self.gain = Gain(width, config.gain) if config.gain is not None else None
        self.dropout = Dropout(config.dropout)
        self.pre = config.place == "pre"

    def forward(self, X: Float[Tensor, "b t m"], branch: Callable[[Tensor], Tensor]) -> Float[Tensor, "b t m"]:
        Y = branch(self.norm(X) if self.pre else X)
        Y = X + self.dropout(Y if self.gain is None else self.gain(Y))
        return Y if self.pre else self.norm(Y)


class BlockCache(NamedTuple):
    """Caches of a block: keys and values of its self-attention, and those of its memory."""

    own: LayerCache
    memory: LayerCache


def static_cache(room: int) -> BlockCache:
    return BlockCache(StaticCache(room), MemoryCache())


def sliding_cache(window: int) -> BlockCache:
    return BlockCache(SlidingCache(window), MemoryCache())


class Block(nn.Module):
    """Self-attention, cross-attention if the config has `cross`, and a feed-forward network, each with a residual.

    Encoder blocks have no `cross`; decoder blocks are run with a causal view.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = MultiHeadAttention(config.attention)
        self.attention_residual = Residual(config)
        if config.cross is not None:
            self.cross = MultiHeadAttention(config.cross)
            self.cross_residual = Residual(config)
        self.ffn = FeedForward(config.ffn)
        self.ffn_residual = Residual(config)
        self.X, self.R, self.O = Tap(), Tap(), Tap()

    def forward(
        self,
        X: Float[Tensor, "b t m"],
        view: View = NO_VIEW,
        memory: Float[Tensor, "b s n"] | None = None,
        memory_view: View = NO_VIEW,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        own, past = cache if cache is not None else (None, None)
        self._require_memory(memory, past)
        X = self.X(X)
        X = self.attention_residual(X, lambda x: self.attention(x, None, view, own))
        if self.config.cross is not None:
            X = self.cross_residual(X, lambda x: self.cross(x, memory, memory_view, past))
        X = self.R(X)
        return self.O(self.ffn_residual(X, self.ffn))

    def _require_memory(self, memory: Tensor | None, past: LayerCache | None) -> None:
        if self.config.cross is None and memory is not None:
            raise InputError("a block without cross-attention was given a memory", "set cross=heads(…) in its config")
        if self.config.cross is not None and memory is None and not (past is not None and past.complete):
            raise InputError("cross-attention needs a memory", "pass the encoder's output as memory")
