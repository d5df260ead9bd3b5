"""Position encodings: added to the tokens, applied as rotations of queries and keys, or as a bias on the scores.

Each kind has its own frozen config class; `None` in a config means that the model has no positions of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.positions import (
    alibi,
    clipped_buckets,
    relative_distance,
    require_choice,
    sinusoidal_at,
    t5_buckets,
)
from glassformer.core.rotary import Scaling, rotary_angles
from glassformer.core.values import has_values
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.attention import Turn
from glassformer.nn.linear import Embedding


@dataclass(frozen=True, kw_only=True)
class Learned:
    """E = table[p + offset]: learned positions; BART and OPT reserve the first rows of the table."""

    length: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.length < 1 or self.offset < 0:
            fact = f"length is {self.length} and offset is {self.offset}"
            raise ConfigError(fact, "choose at least 1 position, and an offset of 0 or more")

    def build(self, width: int) -> LearnedPositions:
        return LearnedPositions(self, width)


@dataclass(frozen=True, kw_only=True)
class Sinusoidal:
    """E[p] = sin and cos of p at decreasing frequencies, interleaved or in halves."""

    layout: Literal["interleaved", "halves"] = "interleaved"
    divisor: Literal["d/2", "d/2-1"] = "d/2"
    offset: int = 0

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, ("interleaved", "halves"))
        require_choice("divisor", self.divisor, ("d/2", "d/2-1"))

    def build(self, width: int) -> SinusoidalPositions:
        return SinusoidalPositions(self, width)


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary positions: the first `width` columns of each query and key are rotated by angles p·ω."""

    width: int
    base: float = 10000.0
    layout: Literal["interleaved", "halves"] = "halves"
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, ("interleaved", "halves"))
        if self.width < 2 or self.width % 2:
            raise ConfigError(f"{self.width} columns do not split into pairs", "rotate an even number of columns")

    def turn(self, positions: Int[Tensor, "..."], dtype: torch.dtype) -> Turn:
        cos, sin = rotary_angles(positions, self.width, base=self.base, scaling=self.scaling, dtype=dtype)
        return Turn(cos, sin, self.layout)


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A learned bias on S per head and distance bucket: clipped (Shaw 2018) or logarithmic (T5)."""

    heads: int
    kind: Literal["clipped", "t5"] = "t5"
    buckets: int = 32
    limit: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, ("clipped", "t5"))

    def build(self) -> RelativeBias:
        return RelativeBias(self)


@dataclass(frozen=True, kw_only=True)
class Alibi:
    """A fixed bias on S that decreases with distance, with a separate slope per head (Press 2021)."""

    heads: int

    def build(self) -> AlibiBias:
        return AlibiBias(self)


Added = Learned | Sinusoidal
Biased = Relative | Alibi


class LearnedPositions(nn.Module):
    """E[p] = table[p + offset]."""

    def __init__(self, config: Learned, width: int) -> None:
        super().__init__()
        self.config = config
        self.table = Embedding(config.length + config.offset, width)

    def forward(
        self, positions: Int[Tensor, "*b t"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*b t m"]:
        if has_values(positions) and positions.numel() and int(positions.max()) >= self.config.length:
            raise ShapeError(
                f"position {int(positions.max())} is beyond the {self.config.length} learned positions",
                "shorten the input, or interpolate the table to a longer one",
            )
        return self.table(positions + self.config.offset).to(dtype)


class SinusoidalPositions(nn.Module):
    """E[p] computed from the sinusoidal formula, for any p."""

    def __init__(self, config: Sinusoidal, width: int) -> None:
        super().__init__()
        self.config, self.width = config, width

    def forward(
        self, positions: Int[Tensor, "*b t"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*b t m"]:
        c = self.config
        return sinusoidal_at(positions + c.offset, self.width, layout=c.layout, divisor=c.divisor, dtype=dtype)


class RelativeBias(nn.Module):
    """bias[h, t, s] = table[bucket(s − t), h]."""

    def __init__(self, config: Relative) -> None:
        super().__init__()
        self.config = config
        self.table = Embedding(config.buckets if config.kind == "t5" else 2 * config.limit + 1, config.heads)

    def forward(self, t: int, s: int) -> Float[Tensor, "h t s"]:
        c = self.config
        distance = relative_distance(t, s, device=self.table.weight.device)
        if c.kind == "clipped":
            buckets = clipped_buckets(distance, c.limit)
        else:
            buckets = t5_buckets(distance, bidirectional=c.bidirectional, buckets=c.buckets, limit=c.limit)
        return self.table(buckets).movedim(-1, 0)


class AlibiBias(nn.Module):
    """bias[h, t, s] = −slope_h |s − t|."""

    def __init__(self, config: Alibi) -> None:
        super().__init__()
        self.config = config

    def forward(self, t: int, s: int) -> Float[Tensor, "h t s"]:
        return alibi(self.config.heads, t, s)
