"""Inputs (token ids, real-valued frames) and outputs (per position, or pooled) of the sequence networks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.positions import require_choice
from glassformer.errors import ConfigError, MaskError, ShapeError
from glassformer.nn.embed import require_ids
from glassformer.nn.linear import Linear

Pool = Literal["none", "mean", "last"]
Sequence = Int[Tensor, "b t"] | Float[Tensor, "b t f"]  # token ids, or frames
Real = Bool[Tensor, "b t"]  # True at real positions, False at padding


def require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name} is {size}", "choose at least 1")


def require_pool(pool: str) -> None:
    require_choice("pool", pool, get_args(Pool))


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Token ids (b, t), each below `vocabulary`."""

    vocabulary: int

    def __post_init__(self) -> None:
        require_positive(vocabulary=self.vocabulary)

    def check(self, X: Tensor) -> None:
        if X.dim() != 2 or X.shape[1] == 0:
            raise ShapeError(f"token ids have shape {tuple(X.shape)}", "give (batch, positions), at least one position")
        require_ids("token id", X, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Real vectors (b, t, features): audio frames, sensor readings, embeddings."""

    features: int

    def __post_init__(self) -> None:
        require_positive(features=self.features)

    def check(self, X: Tensor) -> None:
        if X.dim() != 3 or X.shape[1] == 0 or X.shape[2] != self.features:
            remedy = f"give (batch, frames, {self.features}), at least one frame"
            raise ShapeError(f"frames have shape {tuple(X.shape)}", remedy)


def check_real(real: Tensor, X: Tensor) -> None:
    """Check that a mask (b, t) fits X and is True somewhere in every row."""
    if real.dtype != torch.bool:
        remedy = "give booleans, True = a real position"
        raise MaskError(f"the mask has dtype {str(real.dtype).removeprefix('torch.')}", remedy)
    if real.shape != X.shape[:2]:
        fact = f"a mask of shape {tuple(real.shape)} does not fit positions of shape {tuple(X.shape[:2])}"
        raise MaskError(fact, "give (batch, positions)")
    empty = (~real.any(1)).nonzero()
    if len(empty):
        raise MaskError(f"sequence {int(empty[0])} contains only padding", "leave empty sequences out of the batch")


def require_streamable(pool: Pool) -> None:
    if pool == "mean":
        raise ConfigError("a mean over all positions needs the whole sequence", 'stream with pool "none" or "last"')


def he_uniform(weight: Tensor, generator: torch.Generator) -> None:
    """Uniform on ±√(6/fan in), which compensates for the variance halved by a ReLU (He et al. 2015)."""
    bound = math.sqrt(6 / weight[0].numel())
    weight.uniform_(-bound, bound, generator=generator)


class SequenceHead(nn.Module):
    """logits = W pool(X) + b, for each position ("none"), the mean of the real positions, or the last real position."""

    def __init__(self, width: int, classes: int, pool: Pool) -> None:
        super().__init__()
        self.pool = pool
        self.W = Linear(width, classes)

    def forward(self, X: Float[Tensor, "b t m"], real: Real | None = None) -> Float[Tensor, "..."]:
        """Map (b, t, width) to (b, t, classes), or pooled to (b, classes)."""
        return self.W(pooled(X, self.pool, real))


def pooled(X: Tensor, pool: Pool, real: Tensor | None) -> Tensor:
    if pool == "none":
        return X
    if real is None:
        return X.mean(1) if pool == "mean" else X[:, -1]
    if pool == "mean":
        return X.masked_fill(~real[..., None], 0).sum(1) / real.sum(1, keepdim=True)
    places = torch.arange(real.shape[1], device=real.device)
    last = (real * places).argmax(1)
    return X[torch.arange(len(X), device=X.device), last]
