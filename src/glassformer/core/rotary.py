"""Rotary positions: queries and keys are rotated by position, so their product depends only on the distance."""

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
    """Cosine and sine of the angles of each position, one angle per pair of columns."""

    cos: Float[Tensor, "*b t half"]
    sin: Float[Tensor, "*b t half"]


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """ω′ = ω / factor: positions are compressed into the trained range (position interpolation, 2023)."""

    factor: Number

    def __call__(self, omega: Tensor) -> Tensor:
        return omega / self.factor


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """ω′ = ((1 − g)/factor + g) ω: wavelengths below trained/high are kept, those above trained/low stretched.

    g = (trained·ω/2π − low) / (high − low), clipped to [0, 1], interpolates smoothly between the two (Llama 3.1).
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
    """cos(ω_i p), sin(ω_i p) with ω_i = base^(−2i/d): RoFormer (2021).

    d is the number of rotated columns: the full head width, or less for partial rotary embeddings.
    """
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
    """(x, y) → (x cos − y sin, x sin + y cos) for each pair; ⟨rotate(q, p), rotate(k, r)⟩ depends only on p − r.

    Pairs are columns (i, i + r/2) for layout `halves` (Hugging Face's Llama) and (2i, 2i+1) for `interleaved` (GPT-J,
    Meta's Llama). Columns after the first r = 2·half are unchanged (partial rotary). Angles of shape (b, t, half)
    broadcast over the heads of X of shape (b, h, t, d).
    """
    require_choice("layout", layout, (INTERLEAVED, HALVES))
    half, d = cos.shape[-1], X.shape[-1]
    if 2 * half > d:
        fact = f"angles for {2 * half} columns do not fit a head of width {d}"
        raise ShapeError(fact, f"make angles for at most {d} columns")
    if 2 < cos.dim() < X.dim():  # batched positions: the head axes are between b and t
        gap = (1,) * (X.dim() - cos.dim())
        cos, sin = (a.reshape(*a.shape[:-2], *gap, *a.shape[-2:]) for a in (cos, sin))
    turned, kept = X[..., : 2 * half], X[..., 2 * half :]
    pairs = turned.unflatten(-1, (half, 2) if layout == INTERLEAVED else (2, half))
    x, y = pairs.unbind(-1 if layout == INTERLEAVED else -2)
    both = [x * cos - y * sin, x * sin + y * cos]
    out = torch.stack(both, -1).flatten(-2) if layout == INTERLEAVED else torch.cat(both, -1)
    return torch.cat([out.to(X.dtype), kept], -1)
