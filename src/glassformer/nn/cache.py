"""Keys and values of the past, kept so that each is computed once: all of them, a sliding window, or a memory."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.errors import ShapeError

Pair = tuple[Tensor, Tensor]


class LayerCache:
    """What one attention layer keeps. `length` positions have gone by."""

    complete = False  # True: nothing more comes, so what is kept is not projected again

    def __init__(self) -> None:
        self.length = 0
        self._pair: Pair | None = None

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        """Takes the new keys and values; gives all that the new queries may look at."""
        raise TypeError("choose StaticCache, SlidingCache or MemoryCache")

    def kept(self) -> Pair:
        if self._pair is None:
            raise ShapeError("the cache is empty", "append keys and values first")
        return self._pair

    def reorder(self, rows: Tensor) -> None:
        """Batch row i goes on from the past of row rows[i]: what beam search needs."""
        if self._pair is not None:
            self._pair = (self._pair[0][rows], self._pair[1][rows])


class StaticCache(LayerCache):
    """Room for `room` positions, set aside once; K and V grow into it and are never copied."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        new = self.length + K.shape[2]
        if new > self.room:
            raise ShapeError(f"position {new} came to a cache of {self.room}", "make it longer, or stop earlier")
        if self._pair is None:
            self._pair = self._empty(K), self._empty(V)
        for room, part in zip(self._pair, (K, V), strict=True):
            room[:, :, self.length : new] = part
        self.length = new
        return self.kept()

    def _empty(self, like: Tensor) -> Tensor:
        return like.new_empty(*like.shape[:2], self.room, like.shape[3])

    def kept(self) -> Pair:
        K, V = super().kept()
        return K[:, :, : self.length], V[:, :, : self.length]


class SlidingCache(LayerCache):
    """The last `window` positions before the new ones: all that a windowed or streaming layer looks back at."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        self.length += K.shape[2]
        if self._pair is not None:
            K, V = torch.cat([self._pair[0], K], 2), torch.cat([self._pair[1], V], 2)
        start = max(0, K.shape[2] - self.window)
        self._pair = K[:, :, start:], V[:, :, start:]
        return K, V


class MemoryCache(LayerCache):
    """The keys and values of a memory that stays while a decoder runs: projected once."""

    def append(self, K: Float[Tensor, "b g s d"], V: Float[Tensor, "b g s e"]) -> Pair:
        self._pair, self.complete, self.length = (K, V), True, K.shape[2]
        return K, V
