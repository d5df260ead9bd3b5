"""tokens → X → blocks: the embedding and stack of a text encoder or decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.masks import causal, combine, fill_empty_rows, window
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.attention import View
from glassformer.nn.blocks import NO_VIEW, BlockCache, BlockConfig, sliding_cache
from glassformer.nn.cache import LayerCache
from glassformer.nn.embed import TokenEmbedding
from glassformer.nn.linear import Kernel, Linear
from glassformer.nn.norm import NormConfig
from glassformer.nn.positions import Added, Biased, Rotary
from glassformer.nn.stack import Stack
from glassformer.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Configuration of a `TextStack`. A norm that is None is omitted.

    `positions` are added to the token embeddings; `relative` positions act on queries and keys. With a `window`, each
    token of a decoder attends only to the last `window` tokens, itself included (Mistral).
    """

    vocabulary: int
    depth: int
    block: BlockConfig
    positions: Added | None = None
    relative: Rotary | Biased | None = None
    segments: int = 0
    scale: float = 1.0
    first_norm: NormConfig | None = None
    last_norm: NormConfig | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ConfigError(f"window must be at least 1, got {self.window}", "choose at least 1, or None")

    @property
    def width(self) -> int:
        return self.block.attention.width


class TextStack(Stack):
    """X = embed(tokens), followed by the blocks. `real` is True for tokens that are not padding."""

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

    def cache(self, room: int) -> list[BlockCache]:
        """Return a cache per block: for `room` positions, or with a window for the window − 1 previous ones."""
        if self.config.window is None:
            return super().cache(room)
        return [sliding_cache(self.config.window - 1) for _ in range(self.depth)]

    def encode(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Encode tokens; every token attends to every real token."""
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
        """Decode tokens; each attends to itself and the real tokens before it. `real` covers cached and new tokens.

        Positions count real tokens only, so left padding does not change the output of a prompt.
        """
        own = cache[0].own if cache is not None else LayerCache()
        b, t = tokens.shape
        if real is None:
            where = torch.arange(own.length, own.length + t, device=tokens.device)
        elif real.shape == (b, own.length + t):
            where = (real.long().cumsum(-1) - 1).clamp_min(0)[:, own.length :]
        else:
            raise ShapeError(
                f"real is {tuple(real.shape)} for {b} × {t} tokens after {own.length} cached ones",
                f"give ({b}, {own.length + t}): one value per token, cached tokens included",
            )
        view = self._past(t, own.span(t), real, tokens.device)
        X = self.embed(tokens, where)
        return self(X, view, positions=where, memory=memory, memory_view=memory_view, cache=cache)

    def _past(self, t: int, s: int, real: Tensor | None, device: torch.device) -> View:
        """Return the causal view of t tokens over the last s, limited to the window if there is one."""
        width = self.config.window
        if real is None and width is None:
            return View(causal=True)
        if real is None and width is not None and not torch.compiler.is_compiling():  # one graph serves all lengths
            if s <= width:
                return View(causal=True)
            if t == s > 2 * width and self.relative is None:
                return View(causal=True, window=width)
        seen = causal(t, s, device=device) if width is None else window(t, s, width=width, causal=True, device=device)
        if real is None:
            return View(mask=seen)
        both = combine(seen, real[:, None, None, real.shape[1] - s :])
        assert both is not None
        return View(mask=fill_empty_rows(both))  # left padding has no other key, and its output is not used


class WordHead(nn.Module):
    """The language-model head: logits = scale · W x + b; if tied, W is the embedding table."""

    kernel: Kernel | None = None
    vocabulary: int
    width: int

    def __init__(
        self, vocabulary: int, width: int, *, tied: bool = True, bias: bool = False, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.vocabulary, self.width, self.scale = vocabulary, width, scale
        self.W = None if tied else Linear(width, vocabulary, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        self.logits = Tap()

    def forward(self, X: Float[Tensor, "*b m"], table: Float[Tensor, "v m"]) -> Float[Tensor, "*b v"]:
        W = table if self.W is None else self.W.weight
        X = X if self.scale == 1.0 else X * self.scale
        return self.logits((self.kernel or nn.functional.linear)(X, W, self.bias))
