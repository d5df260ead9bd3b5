"""O_t = Σ_h C_h x_{π_h(t)}: attention in which every head attends to one position. Shifts, permutations, convolutions.

π_h(t) = t + δ_h, on a line or a grid. `edges` defines the value at positions outside: zero, wrap (the opposite end),
hold (the nearest position inside), or renormalised: outside positions are ignored and the other weights rescaled to the
same sum, as softargmax does by itself; this takes one head with A_ts = w_{s−t} / Σ_inside w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError

Edges = Literal["zero", "wrap", "hold", "renormalised"]
EDGES: tuple[Edges, ...] = ("zero", "wrap", "hold", "renormalised")
Size = int | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Routing:
    """One tap per offset δ_h (in one or two dimensions) with its C_h (h, out, in); or a permutation `order`."""

    name: str
    offsets: tuple[tuple[int, ...], ...]
    C: Tensor
    edges: Edges = "zero"
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.edges not in EDGES:
            raise ConfigError(f"edges are {self.edges!r}", f"choose one of {', '.join(EDGES)}")
        if self.edges == "renormalised" and (self.weights() < 0).any():
            raise ConfigError(
                f"{self.name} has the weight {self.weights().min().item():g}, and A is never below 0",
                "choose other edges, which take one head for each weight",
            )

    @property
    def dims(self) -> int:
        return len(self.offsets[0])

    @property
    def heads(self) -> int:
        return 1 if self.edges == "renormalised" else len(self.offsets)

    @property
    def channels(self) -> tuple[int, int]:
        """The number of input and output channels."""
        return self.C.shape[2], self.C.shape[1]

    def weights(self) -> Tensor:
        """Return w_h; each C_h must be w_h · I, the same for every channel."""
        w = self.C[:, 0, 0]
        if self.C.shape[1] != self.C.shape[2] or not torch.equal(
            self.C, w[:, None, None] * torch.eye(self.C.shape[1], dtype=self.C.dtype)
        ):
            raise ConfigError(f"{self.name} mixes channels, which one A cannot", "choose other edges, which use W_O")
        return w

    def grid(self, size: Size) -> tuple[int, ...]:
        """Return the size as (n,) or (rows, columns); in two dimensions one number means a square."""
        grid = (size,) * self.dims if isinstance(size, int) else tuple(size)
        if len(grid) != self.dims or min(grid) < 1:
            raise ShapeError(f"size is {size} for {self.dims} dimension(s)", "give one positive number for each")
        if self.order is not None and grid != (len(self.order),):
            raise ShapeError(
                f"the permutation orders {len(self.order)} tokens, but there are {grid[0]}", "give as many as it orders"
            )
        return grid

    def places(self, size: Size) -> Tensor:
        """π (h, n): the position each tap attends to, in row-major order; −1 for none."""
        grid = self.grid(size)
        if self.order is not None:
            return torch.tensor([self.order])
        here = torch.cartesian_prod(*(torch.arange(k) for k in grid)).reshape(-1, self.dims)
        there = here + torch.tensor(self.offsets)[:, None]
        limit = torch.tensor(grid)
        inside = ((there >= 0) & (there < limit)).all(-1)
        if self.edges == "wrap":
            there, inside = there % limit, torch.ones_like(inside)
        elif self.edges == "hold":
            there, inside = there.clamp_min(0).minimum(limit - 1), torch.ones_like(inside)
        strides = torch.tensor([math.prod(grid[i + 1 :]) for i in range(self.dims)])
        return torch.where(inside, (there * strides).sum(-1), -1)

    def ideal(self, size: Size, head: int = 0) -> Tensor:
        """A (n, n) of one head in the limit β → ∞; a row of zeros where it attends to nothing."""
        places = self.places(size)
        n = places.shape[1]
        A = torch.zeros(n, n + 1, dtype=torch.float64)  # one more column for queries that attend to nothing
        rows = torch.arange(n)
        taps = enumerate(self.weights().tolist()) if self.edges == "renormalised" else [(head, 1.0)]
        for tap, weight in taps:
            A[rows, places[tap]] += weight
        A = A[:, :n]
        if self.edges == "renormalised":
            total = A.sum(-1, keepdim=True)
            if (total <= 0).any():
                where = int((total <= 0).nonzero()[0, 0])
                raise InputError(f"position {where} has zero weights only", "choose other edges or a larger size")
            A = A / total
        return A

    def target(self, X: Tensor, size: Size) -> Tensor:
        """Return the exact output for X (b, n, in), computed by indexing."""
        if self.edges == "renormalised":
            return self.weights().sum() * (self.ideal(size) @ X)
        padded = torch.cat([X, torch.zeros_like(X[:, :1])], 1)  # position −1 is zero
        out = torch.zeros(*X.shape[:2], self.channels[1], dtype=X.dtype)
        for places, C in zip(self.places(size), self.C, strict=True):
            out = out + padded[:, places] @ C.T
        return out


def _each(weight: float, channels: int) -> Tensor:
    return weight * torch.eye(channels, dtype=torch.float64)[None]


def identity(*, channels: int = 1) -> Routing:
    return Routing(name="identity", offsets=((0,),), C=_each(1.0, channels))


def permutation(order: Sequence[int], *, channels: int = 1) -> Routing:
    """Output i is input order[i], counted from 1: (3, 1, 2) puts the third token first."""
    if sorted(order) != list(range(1, len(order) + 1)) or not order:
        raise InputError(f"{','.join(map(str, order))} is not a permutation", "name each of 1, 2, … once, as 3,1,2")
    name = f"permutation {','.join(map(str, order))}"
    return Routing(name=name, offsets=((0,),), C=_each(1.0, channels), order=tuple(i - 1 for i in order))


def shift(by: int, *, channels: int = 1, edges: Edges = "zero") -> Routing:
    """Replace each token by the one `by` positions before it (after it, if negative)."""
    return Routing(name=f"shift by {by}", offsets=((-by,),), C=_each(1.0, channels), edges=edges)


def previous_token(*, channels: int = 1, edges: Edges = "zero") -> Routing:
    return Routing(name="previous-token", offsets=((-1,),), C=_each(1.0, channels), edges=edges)


def convolution(kernel: Tensor | Sequence[object], *, channels: int = 1, edges: Edges = "zero") -> Routing:
    """O_t = Σ_δ W_δ x_{t+δ}, not flipped, as in PyTorch; one head per tap (Cordonnier et al. 2020).

    The kernel is (k) or (k, k), applied to each channel separately, or (out, in, k) or (out, in, k, k). Its centre is
    the tap (k − 1) // 2, as with padding="same".
    """
    W = torch.as_tensor(kernel, dtype=torch.float64)
    if not 1 <= W.dim() <= 4 or W.numel() == 0:
        raise ShapeError(f"the kernel has shape {tuple(W.shape)}", "give (k), (k, k), (out, in, k) or (out, in, k, k)")
    if W.dim() <= 2:
        W = torch.eye(channels, dtype=torch.float64)[(...,) + (None,) * W.dim()] * W
    sizes = W.shape[2:]
    offsets = tuple(product(*(range(-((k - 1) // 2), k // 2 + 1) for k in sizes)))
    name = f"convolution {'×'.join(map(str, sizes))}"
    return Routing(name=name, offsets=offsets, C=W.flatten(2).permute(2, 0, 1).contiguous(), edges=edges)
