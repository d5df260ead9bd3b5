"""Y = stack(X) under the chunked mask, from pieces of X as they arrive: identical outputs in bounded memory.

A frame attends to its whole chunk, to some frames before the chunk and to some after it. With look-ahead, each block
waits for the outputs of the block below: the delays add up, so `Chunks.ahead` grows with depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.masks import Device, chunked
from glassformer.errors import ConfigError
from glassformer.nn.attention import Turn, View
from glassformer.nn.blocks import Block, BlockCache
from glassformer.nn.cache import MemoryCache, Pair, SlidingCache
from glassformer.nn.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """In every block, a frame attends to its chunk, and to `left` frames before and `right` frames after the chunk.

    All three count frames at the stack's own rate; chunk = 1 with right = 0 is causal. See `core.masks.chunked`.
    """

    chunk: int
    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.left < 0 or self.right < 0:
            fact = f"chunk {self.chunk}, left {self.left}, right {self.right} are not a valid window"
            raise ConfigError(fact, "count frames: a chunk of at least 1, left and right of 0 or more")

    def mask(
        self, t: int, s: int | None = None, *, offset: int | None = None, start: int = 0, device: Device = None
    ) -> Bool[Tensor, "t s"]:
        """Return the mask of t query frames starting at `offset` over s key frames starting at `start`."""
        size, left, right = self.chunk, self.left, self.right
        return chunked(t, s, chunk=size, left=left, right=right, offset=offset, start=start, device=device)

    def known(self, frames: int) -> int:
        """Return how many frames can be computed after `frames` arrived: whole chunks whose look-ahead is complete."""
        return max(0, (frames - self.right) // self.chunk * self.chunk)

    def ahead(self, depth: int) -> int:
        """Return how many frames after its own chunk an output depends on through `depth` blocks.

        The first block looks `right` frames ahead. A frame that attends to the next chunk depends on everything that
        chunk's frames attended to, up to its end and beyond: each further block adds ⌈right / chunk⌉ whole chunks.
        """
        return self.right + (depth - 1) * -(-self.right // self.chunk) * self.chunk

    @property
    def window(self) -> int:
        """Number of keys a block caches: the left context of the oldest waiting frame, and everything after it."""
        return self.left + self.chunk - 1 + self.right


@dataclass
class _Past:
    """State of a block: cached keys and values, frames waiting for look-ahead, and the number of finished frames."""

    cache: SlidingCache
    waiting: Tensor | None = None
    done: int = 0


class StackStream:
    """Run a stack on a stream: `step` takes new frames and returns those that are final; with `end`, all the rest.

    Keys are cached after rotation by their position in the stream: the product of two rotated vectors depends only on
    their distance, so nothing is rotated again, and positions are unbounded (angles are computed in float64).
    """

    def __init__(self, stack: Stack, chunks: Chunks) -> None:
        if any(block.config.cross is not None for block in stack.blocks()):
            raise ConfigError("a stack with cross-attention cannot stream", "stream an encoder")
        self.stack, self.chunks = stack, chunks
        self.pasts = [_Past(SlidingCache(chunks.window)) for _ in stack.blocks()]
        self._caches = [BlockCache(past.cache, MemoryCache()) for past in self.pasts]

    def step(self, X: Float[Tensor, "b t m"], *, end: bool = False) -> Float[Tensor, "b n m"]:
        t, first = X.shape[1], self.pasts[0]
        if t and t % self.chunks.chunk == self.chunks.right == 0 and first.done == first.cache.length:
            return self._whole_chunks(X)
        for block, past in zip(self.stack.blocks(), self.pasts, strict=True):
            X = self._through(block, past, X, end)
        return X if self.stack.norm is None else self.stack.norm(X)

    def _whole_chunks(self, X: Tensor) -> Tensor:
        """Whole chunks without look-ahead: no frame waits in any block, so it is one pass through the stack."""
        t, cache = X.shape[1], self.pasts[0].cache
        s = cache.span(t)
        mask = self.chunks.mask(t, s, offset=cache.length, start=cache.length + t - s, device=X.device)
        Y = self.stack(X, View(mask=mask), cache=self._caches)
        for past in self.pasts:
            past.done = past.cache.length
        return Y

    def _through(self, block: Block, past: _Past, X: Tensor, end: bool) -> Tensor:
        """Compute keys and values of the new frames, and the outputs of frames whose look-ahead is now complete."""
        if not X.shape[1] and not end:  # most short pieces of audio complete no frame and cost nothing
            return X
        X = block.X(X)
        K, V = self._keys(block, past, X)
        come, first = past.cache.length, past.done
        waiting = X if past.waiting is None else torch.cat([past.waiting, X], 1)
        past.done = come if end else self.chunks.known(come)
        ready, past.waiting = waiting.tensor_split([past.done - first], 1)
        if not ready.shape[1]:
            return ready
        view = self._view(ready, first, K.shape[2], come - K.shape[2])
        seen = MemoryCache()
        seen.append(K, V)
        Y = block.attention_residual(ready, lambda x: block.attention(x, None, view, seen))
        return block.O(block.ffn_residual(block.R(Y), block.ffn))

    def _keys(self, block: Block, past: _Past, X: Tensor) -> Pair:
        residual = block.attention_residual
        view = View(turn=self._turn(X, past.cache.length))
        return past.cache.append(*block.attention.project(residual.norm(X) if residual.pre else X, view))

    def _turn(self, X: Tensor, first: int) -> Turn | None:
        rotary = self.stack.rotary
        where = torch.arange(first, first + X.shape[1], device=X.device)
        return None if rotary is None else rotary.turn(where, X.dtype)

    def _view(self, X: Tensor, first: int, s: int, start: int) -> View:
        """Return the view of the frames X, starting at `first`, over s keys starting at `start`."""
        t = X.shape[1]
        bias = None
        if self.stack.relative is not None:  # computed with all keys as queries, then sliced to these
            bias = self.stack.relative(s, s).to(X)[:, first - start : first - start + t]
        mask = self.chunks.mask(t, s, offset=first, start=start, device=X.device)
        return View(mask=mask, bias=bias, turn=self._turn(X, first))

    @property
    def stored_values(self) -> int:
        """Number of stored values; bounded, however long the stream."""
        pairs = [part for past in self.pasts if past.cache.length for part in past.cache.kept()]
        return sum(part.numel() for part in (*pairs, *(p.waiting for p in self.pasts if p.waiting is not None)))
