"""Key/value caches: all previous positions, a sliding window, or a memory."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.captured import captured
from glassformer.errors import ConfigError, ShapeError

Pair = tuple[Tensor, Tensor]


class LayerCache:
    """Key/value cache of one attention layer; `length` is the number of positions seen so far."""

    complete = False  # True: no more keys will be appended, so the cached ones are reused as they are
    shared = False  # True: a `Pattern` reads the cached keys lazily, so they must not be moved in place

    def __init__(self) -> None:
        self.length = 0
        self._pair: Pair | None = None

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        """Append new keys and values, and return all that the new queries may attend to."""
        raise TypeError("choose StaticCache, SlidingCache or MemoryCache")

    def span(self, t: int) -> int:
        """Return the number of keys that t new queries attend to: cached ones and their own."""
        return self.length + t

    @property
    def rows(self) -> int:
        """Batch size of the cached keys; 0 if the cache is empty."""
        return 0 if self._pair is None else self._pair[0].shape[0]

    def kept(self) -> Pair:
        if self._pair is None:
            raise ShapeError("the cache is empty", "append keys and values first")
        return self._pair

    def reorder(self, rows: Tensor) -> None:
        """Reorder the batch for beam search: row i continues from the cache of row rows[i]."""
        if self._pair is not None:
            self._pair = (self._pair[0][rows], self._pair[1][rows])

    def _require_batch(self, K: Tensor) -> None:
        if self._pair is not None and len(K) != len(self._pair[0]):
            raise ShapeError(
                f"the cache holds {len(self._pair[0])} sequences, got {len(K)}", "reorder the cache, or start a new one"
            )


class StaticCache(LayerCache):
    """A cache with preallocated capacity for `room` positions; cached K and V are not copied on append.

    Writes are in place, so gradients work only with a single append, or without a cache.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def push(self, k: Float[Tensor, "b g 1 d"], v: Float[Tensor, "b g 1 e"]) -> Pair:
        """Append one position, without the checks of `append`."""
        assert self._pair is not None
        self.length += 1
        return _pushed(*self._pair, k, v, self.length)

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        self._require_batch(K)
        new = self.length + K.shape[2]
        if new > self.room:
            raise ShapeError(
                f"the cache has room for {self.room} positions, got {new}",
                "create a longer cache, or generate fewer tokens",
            )
        if self._pair is None:
            self._pair = self._empty(K), self._empty(V)
        for room, part in zip(self._pair, (K, V), strict=True):
            room[:, :, self.length : new] = part
        self.length = new
        return self.kept()

    def _empty(self, like: Tensor) -> Tensor:
        return like.new_empty(*like.shape[:2], self.room, like.shape[3])

    def reorder(self, rows: Tensor) -> None:
        if self._pair is None:
            return
        K, V = self.kept()
        if len(rows) == len(K) and not self.shared:  # only rows that continue from another one are copied
            moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
            if len(moved):
                for part in (K, V):
                    part[moved] = part[rows[moved]]
        else:  # copy only the filled part
            self._pair = self._empty(K[rows, :, :0]), self._empty(V[rows, :, :0])
            for room, part in zip(self._pair, (K, V), strict=True):
                room[:, :, : self.length] = part[rows]

    def kept(self) -> Pair:
        K, V = super().kept()
        return K[:, :, : self.length], V[:, :, : self.length]


class SlidingCache(LayerCache):
    """A cache of the last `window` positions, for layers with windowed or streaming attention."""

    def __init__(self, window: int) -> None:
        super().__init__()
        if window < 0:
            raise ConfigError(f"window must be at least 0, got {window}", "choose 0 or more")
        self.window = window

    def span(self, t: int) -> int:
        return t if self._pair is None else self._pair[0].shape[2] + t

    def append(self, K: Float[Tensor, "b g t d"], V: Float[Tensor, "b g t e"]) -> Pair:
        self._require_batch(K)
        self.length += K.shape[2]
        if self._pair is not None:
            K, V = torch.cat([self._pair[0], K], 2), torch.cat([self._pair[1], V], 2)
        start = max(0, K.shape[2] - self.window)
        self._pair = K[:, :, start:], V[:, :, start:]
        return K, V


class MemoryCache(LayerCache):
    """A cache of the keys and values of a decoder's memory (the encoder's output), which are projected only once."""

    def append(self, K: Float[Tensor, "b g s d"], V: Float[Tensor, "b g s e"]) -> Pair:
        self._pair = K.contiguous(), V.contiguous()  # read at every step, twice as fast if each head is contiguous
        self.complete, self.length = True, K.shape[2]
        return self._pair


@captured
def _pushed(K: Tensor, V: Tensor, k: Tensor, v: Tensor, length: int) -> tuple[Tensor, Tensor]:
    K.narrow(2, length - 1, 1).copy_(k)
    V.narrow(2, length - 1, 1).copy_(v)
    return K.narrow(2, 0, length), V.narrow(2, 0, length)
