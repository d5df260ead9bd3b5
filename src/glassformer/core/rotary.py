"""Rotary positions: a query and a key are turned by their positions, so that their product knows the distance alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Real
from torch import Tensor

from glassformer.core.positions import HALVES, INTERLEAVED, Number, frequencies, require_choice
from glassformer.errors import ShapeError

Scaling = Callable[[Tensor], Tensor]  # frequencies in, frequencies out


class Rotation(NamedTuple):
    """The angles of each position, one per pair of columns."""

    cos: Float[Tensor, "*b t half"]
    sin: Float[Tensor, "*b t half"]


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """ω′ = ω / factor: positions squeezed into the trained range (position interpolation, 2023)."""

    factor: Number

    def __call__(self, omega: Tensor) -> Tensor:
        return omega / self.factor


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """ω′ = ((1 − g)/factor + g) ω: waves shorter than trained/high stay, those longer than trained/low are slowed.

    g = (trained·ω/2π − low) / (high − low), clipped to [0, 1], goes smoothly from the one to the other (Llama 3.1).
    """

    factor: Number
    low: Number
    high: Number
    trained: int

    def __call__(self, omega: Tensor) -> Tensor:
        turns = self.trained * omega / (2 * math.pi)
        g = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return ((1 - g) / self.factor + g) * omega


def rotary_angles(
    positions: Real[Tensor, "*b t"],
    d: int,
    *,
    base: Number = 10000.0,
    scaling: Scaling | None = None,
    dtype: torch.dtype = torch.float32,
) -> Rotation:
    """cos(ω_i p), sin(ω_i p) with ω_i = base^(−2i/d): RoFormer (2021); d columns turn, all of a head or its first."""
    if d < 2 or d % 2:
        raise ShapeError(f"{d} columns do not split into pairs", "rotate an even number of columns")
    omega = frequencies(d, base=base)
    omega = (omega if scaling is None else scaling(omega)).to(positions.device)
    angles = positions.double()[..., None] * omega
    return Rotation(angles.cos().to(dtype), angles.sin().to(dtype))


def rotate(
    X: Float[Tensor, "*b t d"],
    cos: Float[Tensor, "*c t half"],
    sin: Float[Tensor, "*c t half"],
    *,
    layout: str = HALVES,
) -> Float[Tensor, "*b t d"]:
    """(x, y) → (x cos − y sin, x sin + y cos) for each pair; ⟨rotate(q, p), rotate(k, r)⟩ depends on p − r alone.

    A pair is columns (i, i + r/2) in `halves` (Hugging Face's Llama), (2i, 2i+1) when `interleaved` (GPT-J, Meta's
    Llama). Columns past the first r = 2·half stay (partial rotary). Angles of (b, t, half) fit X of (b, h, t, d).
    """
    require_choice("layout", layout, (INTERLEAVED, HALVES))
    half, d = cos.shape[-1], X.shape[-1]
    if 2 * half > d:
        fact = f"angles for {2 * half} columns do not fit a head of width {d}"
        raise ShapeError(fact, f"make angles for at most {d} columns")
    if 2 < cos.dim() < X.dim():  # a batch of positions: the head axes stand between b and t
        gap = (1,) * (X.dim() - cos.dim())
        cos, sin = (a.reshape(*a.shape[:-2], *gap, *a.shape[-2:]) for a in (cos, sin))
    turned, kept = X[..., : 2 * half], X[..., 2 * half :]
    pairs = turned.unflatten(-1, (half, 2) if layout == INTERLEAVED else (2, half))
    x, y = pairs.unbind(-1 if layout == INTERLEAVED else -2)
    both = [x * cos - y * sin, x * sin + y * cos]
    out = torch.stack(both, -1).flatten(-2) if layout == INTERLEAVED else torch.cat(both, -1)
    return torch.cat([out.to(X.dtype), kept], -1)
