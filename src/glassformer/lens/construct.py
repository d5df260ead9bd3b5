"""`certify(build(shift(2), 12))`: attention weights that implement a given behaviour, and their error as β grows.

Position codes, S_ts = β (T_h E_t) · (G E_s), and the maps that make each head's scores largest at its target:
one-hot: E_s = e_s, T_h maps e_t to e_π(t); any π, width n. Gap 1.
quadratic: −‖p_s − p_t − δ‖² up to terms that are equal for all keys (softargmax is invariant to them), from
E = (p, ‖p‖², 1): T_h E = (2p + 2δ, −1), G E = (p, ‖p‖²). Width 2 or 3 per head at any length. Gap 1. (Cordonnier et
al. 2020.)
sinusoidal: E_{p+δ} = R_δ E_p rotates each pair of sines, so S = β Σ_i cos ω_i(p_s − p_t − δ). The gap is measured.

Error bound. Suppose there are M keys, and every target's score exceeds every other key's by at least g (at β = 1). The
weight that misses the target is ε ≤ m/(1 + m) with m = (M − 1) e^{−βg}, since each other key has at most e^{−βg} of the
target's weight. The error of a head's output is |Σ_s A_ts v_s − v_π| = |Σ_{s≠π} A_ts (v_s − v_π)| ≤ ε · 2 max|V|, and
W_O sums over heads:
    max|O − target| ≤ 2 ε max|V| ‖C‖,    ‖C‖ = max_o Σ_h Σ_c |C_h[o, c]|.
For a renormalised band the target is Σ_band (w/Σw) v, a mean over the keys of the band, which share 1 − ε in exactly
those proportions, so the same bound holds. Conversely, the error is within a tolerance τ if, with
η = τ / (2 max|V| ‖C‖),
    β ≥ log((M − 1)(1 − η)/η) / g.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor, nn

from glassformer.core.positions import shift_matrix, sinusoidal_at
from glassformer.errors import ConfigError, ShapeError
from glassformer.lens.edit import Edit, at_heads, edit
from glassformer.lens.kernels import NAMES, named_kernel, read_kernel
from glassformer.lens.routing import (
    EDGES,
    Edges,
    Routing,
    Size,
    convolution,
    identity,
    permutation,
    previous_token,
    shift,
)
from glassformer.lens.trace import trace
from glassformer.nn import AttentionConfig, MultiHeadAttention, View

__all__ = [
    "BETAS",
    "CODES",
    "EDGES",
    "NAMES",
    "Certificate",
    "CertificateRow",
    "Constructed",
    "Edges",
    "Routing",
    "build",
    "certify",
    "convolution",
    "identity",
    "named_kernel",
    "permutation",
    "plant",
    "previous_token",
    "read_kernel",
    "shift",
]

# ---- codes -----------------------------------------------------------------------------------------------------------

CODES = ("one-hot", "quadratic", "sinusoidal")
_SINES = 16  # columns per axis


class Code(NamedTuple):
    """Codes E (M, p) of the n positions, followed by those outside; T (h, d, p), G (d, p); targets (h, n, M)."""

    E: Tensor
    T: Tensor
    G: Tensor
    targets: Tensor


def code(kind: str, routing: Routing, size: Size) -> Code:
    """Return the code of the given kind for a routing. Not every kind supports every edge mode."""
    if kind not in CODES:
        raise ConfigError(f"there is no positional encoding {kind!r}", f"choose one of {', '.join(CODES)}")
    if kind == "one-hot":
        return one_hot(routing, size)
    edges = ("zero", "hold") if kind == "quadratic" else ("zero",)
    if routing.order is not None or routing.edges not in edges:
        what = "a permutation" if routing.order is not None else f"{routing.edges} edges"
        raise ConfigError(
            f"{kind} encodings represent only offsets and cannot do {what}", "choose the one-hot encoding"
        )
    return quadratic(routing, size) if kind == "quadratic" else sinusoidal(routing, size)


def one_hot(routing: Routing, size: Size) -> Code:
    """One-hot codes, with an extra column and an extra key of value 0 if some query attends to nothing."""
    places = routing.places(size)
    h, n = places.shape
    band = routing.edges == "renormalised"
    M = n + bool(not band and (places < 0).any())
    targets = torch.zeros(routing.heads, n, n + 1, dtype=torch.bool)
    for tap in range(h):
        if not band or routing.weights()[tap] > 0:
            targets[0 if band else tap, torch.arange(n), places[tap]] = True
    targets = targets[..., :M]
    eye = torch.eye(M, dtype=torch.float64)
    T = torch.zeros(routing.heads, M, M, dtype=torch.float64)
    T[:, :, :n] = targets.mT.double()
    return Code(eye, T, eye, targets)


def _around(routing: Routing, size: Size) -> tuple[Tensor, Tensor]:
    """Return the positions inside, row by row, then those outside that a tap reaches; and the targets of each tap."""
    grid = routing.grid(size)
    inside = list(product(*(range(k) for k in grid)))
    if routing.edges == "hold":
        outside = []
        targets = routing.places(size)
    else:
        reached = [[tuple(p + d for p, d in zip(place, o, strict=True)) for place in inside] for o in routing.offsets]
        outside = sorted({place for row in reached for place in row} - set(inside))
        index = {place: i for i, place in enumerate([*inside, *outside])}
        targets = torch.tensor([[index[place] for place in row] for row in reached])
    places = torch.tensor([*inside, *outside], dtype=torch.float64).reshape(-1, routing.dims)
    return places, torch.nn.functional.one_hot(targets, len(places)).bool()


def quadratic(routing: Routing, size: Size) -> Code:
    places, targets = _around(routing, size)
    p = places - places.mean(0)  # smaller numbers with the same differences
    D = routing.dims
    E = torch.cat([p, p.square().sum(-1, keepdim=True), torch.ones(len(p), 1, dtype=p.dtype)], -1)
    G = torch.eye(D + 1, D + 2, dtype=p.dtype)
    T = torch.zeros(routing.heads, D + 1, D + 2, dtype=p.dtype)
    T[:, :D, :D] = 2 * torch.eye(D, dtype=p.dtype)
    T[:, :D, -1] = 2 * torch.tensor(routing.offsets, dtype=p.dtype)
    T[:, -1, -1] = -1
    return Code(E, T, G, targets)


def sinusoidal(routing: Routing, size: Size) -> Code:
    places, targets = _around(routing, size)
    E = torch.cat([sinusoidal_at(axis, _SINES, dtype=torch.float64) for axis in places.T], -1)
    turns = [torch.block_diag(*(shift_matrix(_SINES, d).T for d in offset)) for offset in routing.offsets]
    return Code(E, torch.stack(turns), torch.eye(E.shape[1], dtype=E.dtype), targets)


def gap(made: Code) -> float:
    """The smallest margin, at β = 1, of a target's score over every other key's: min over heads and queries."""
    K = made.E @ made.G.T
    smallest = float("inf")
    for T, targets in zip(made.T, made.targets, strict=True):
        S = made.E[: targets.shape[0]] @ T.T @ K.T
        if bool(targets.all()):  # no other keys
            continue
        worst = S.masked_fill(~targets, float("inf")).amin(-1)
        rival = S.masked_fill(targets, -float("inf")).amax(-1)
        smallest = min(smallest, float((worst - rival).min()))
    return smallest


# ---- attention -------------------------------------------------------------------------------------------------------


class Constructed(nn.Module):
    """`MultiHeadAttention` with constructed weights: `[X | E]` attends to `[X | E]` and positions outside, with X = 0.

    All heads share one key head (the codes) and one value head (the tokens themselves); W_Q selects the target of each
    head and W_O holds the coefficients C_h. A renormalised band has log w as a bias on S.
    """

    E: Tensor
    bias: Tensor | None

    def __init__(self, routing: Routing, size: Size, made: Code, kind: str, beta: float) -> None:
        super().__init__()
        self.routing, self.size, self.kind = routing, routing.grid(size), kind
        self.gap = gap(made)
        if self.gap <= 1e-9:
            raise ConfigError(
                f"{kind} encodings do not distinguish the positions of {routing.name} at size {size}",
                "choose a smaller size, or the one-hot encoding",
            )
        self.register_buffer("E", made.E)
        self.register_buffer("bias", _band_bias(routing, size))
        self.targets = made.targets
        self.attention = _attention(routing, made, beta)
        self.double()

    @property
    def keys(self) -> int:
        """M: the number of keys, positions inside and outside."""
        return self.E.shape[0]

    @property
    def norm(self) -> float:
        """‖C‖ = max_o Σ_h Σ_c |C_h[o, c]|."""
        return float(self.routing.C.abs().sum((0, 2)).max())

    def forward(self, X: Tensor) -> Tensor:
        n, (c_in, c_out) = math.prod(self.size), self.routing.channels
        if X.dim() != 3 or X.shape[1:] != (n, c_in):
            raise ShapeError(f"X is {tuple(X.shape)}", f"give (batch, {n}, {c_in}): {n} tokens of {c_in} channels")
        wide = self.attention.config.width
        Z = X.new_zeros(len(X), self.keys, wide)
        Z[:, :n, :c_in] = X
        Z[..., c_in : c_in + self.E.shape[1]] = self.E
        return self.attention(Z[:, :n], Z, View(bias=self.bias))[..., :c_out]

    def target(self, X: Tensor) -> Tensor:
        return self.routing.target(X, self.size)

    def missed(self, beta: float) -> float:
        """ε(β): upper bound on the weight that any head assigns to keys other than its target."""
        if self.gap == math.inf:  # there are no other keys
            return 0.0
        m = (self.keys - 1) * math.exp(-beta * self.gap)
        return m / (1 + m)

    def bound(self, beta: float, largest: float) -> float:
        """2 ε max|V| ‖C‖: upper bound on max|O − target|, with max|V| = `largest`."""
        return 2 * self.missed(beta) * largest * self.norm

    def beta_for(self, tolerance: float, largest: float) -> float:
        """Return the β at which the bound equals the tolerance; 0 if any β suffices."""
        if tolerance <= 0:
            raise ConfigError(
                f"tolerance must be above 0, got {tolerance:g}",
                "choose a positive number: the error is 0 only at β = ∞",
            )
        scale = 2 * largest * self.norm
        eta = tolerance / scale if scale else 1.0
        if eta >= 1 or self.gap == math.inf:
            return 0.0
        return max(0.0, math.log((self.keys - 1) * (1 - eta) / eta) / self.gap)


def _attention(routing: Routing, made: Code, beta: float) -> MultiHeadAttention:
    (c_in, c_out), p, d = routing.channels, made.E.shape[1], made.G.shape[0]
    wide = max(c_in + p, c_out)
    config = AttentionConfig(
        width=wide,
        heads=routing.heads,
        kv_heads=1,
        key_width=d,
        value_width=c_in,
        memory_width=wide,
        beta=beta,
        biases="",
    )
    layer = MultiHeadAttention(config).double()
    band = routing.edges == "renormalised"
    C = routing.weights().sum() * torch.eye(c_in, dtype=torch.float64) if band else routing.C
    with torch.no_grad():
        layer.WQ.weight[:, c_in : c_in + p] = made.T.flatten(0, 1)
        layer.WK.weight[:, c_in : c_in + p] = made.G
        layer.WV.weight[:, :c_in] = torch.eye(c_in)
        layer.WO.weight[:c_out] = C.reshape(-1, c_out, c_in).permute(1, 0, 2).flatten(1)
    return layer.requires_grad_(False)


def _band_bias(routing: Routing, size: Size) -> Tensor | None:
    """log w inside the band; outside, the smallest log w of the row, so that only β suppresses those keys."""
    if routing.edges != "renormalised":
        return None
    A = routing.ideal(size)
    inside = A > 0
    least = A.masked_fill(~inside, math.inf).amin(-1, keepdim=True)
    return torch.where(inside, A, least).log()


def build(routing: Routing, size: Size, *, beta: float = 30.0, kind: str = "one-hot") -> Constructed:
    """Build a module that applies the routing to sequences (or grids, row by row) of the given size.

    `kind` selects the position codes: one-hot, quadratic or sinusoidal (see the module docstring).
    """
    return Constructed(routing, size, code(kind, routing, size), kind, beta)


# ---- certificates ----------------------------------------------------------------------------------------------------

BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class CertificateRow(NamedTuple):
    """Results at one β: the largest weight that misses its target, max |O − target|, and the bounds on both."""

    beta: float
    missed: float
    missed_bound: float
    error: float
    error_bound: float


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Measured errors and proven bounds, on random tokens with max |V| = `largest`.

    `rounding` estimates the rounding error of float64.
    """

    name: str
    size: tuple[int, ...]
    channels: tuple[int, int]
    edges: str
    code: str
    heads: int
    keys: int
    gap: float
    norm: float
    largest: float
    rounding: float
    lines: list[CertificateRow]
    tolerance: float
    beta_needed: float

    @property
    def holds(self) -> bool:
        """Whether every measured number is within its bound, up to rounding."""
        return all(
            line.error <= line.error_bound + self.rounding and line.missed <= line.missed_bound + self.rounding
            for line in self.lines
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.facts()
        table = Table("β", "missed", "bound", "max |O − target|", "bound", box=None, header_style="bold")
        for line in self.lines:
            table.add_row(f"{line.beta:g}", *(f"{x:.3g}" for x in line[1:]))
        yield table
        yield f"every measured number is within its bound: {'yes' if self.holds else 'NO'}"
        yield f"for an error below {self.tolerance:g}: β ≥ {self.beta_needed:.4g}"

    def facts(self) -> Iterator[str]:
        size = " × ".join(map(str, self.size))
        ins, outs = self.channels
        yield f"{self.name}: {size} tokens, {ins} → {outs} channels, {self.edges} edges"
        yield f"{self.heads} head(s), {self.code} codes, {self.keys} keys, gap {self.gap:.4g}, ‖C‖ {self.norm:.4g}"


@torch.no_grad()
def certify(
    made: Constructed, betas: Sequence[float] = BETAS, *, tolerance: float = 1e-6, batch: int = 8, seed: int = 0
) -> Certificate:
    """Measure max |O − target| on random tokens in [−1, 1] for each β, and compute the bound derived above."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(batch, prod(made.size), made.routing.channels[0], dtype=torch.float64, generator=generator) * 2 - 1
    largest = float(X.abs().max())
    target = made.target(X)
    lines = []
    for beta in betas:
        with edit(made, "attention.beta", beta):
            error = float((made(X) - target).abs().max())
            missed = measured_miss(made, X[:1])
        lines.append(CertificateRow(beta, missed, made.missed(beta), error, made.bound(beta, largest)))
    # each output sums heads · channels · keys products, each accurate to one part in 2⁵²
    sums = made.routing.heads * made.routing.channels[0] + made.keys
    return Certificate(
        name=made.routing.name,
        size=made.size,
        channels=made.routing.channels,
        edges=made.routing.edges,
        code=made.kind,
        heads=made.routing.heads,
        keys=made.keys,
        gap=made.gap,
        norm=made.norm,
        largest=largest,
        rounding=float(torch.finfo(torch.float64).eps) * sums * max(1.0, largest * made.norm),
        lines=lines,
        tolerance=tolerance,
        beta_needed=made.beta_for(tolerance, largest),
    )


def measured_miss(made: Constructed, X: Tensor) -> float:
    """The maximum over heads and queries of the weight on keys that are not targets."""
    with trace(made, "attention.A") as run:
        made(X)
    A = run["attention.A"][0]
    return float(A.masked_fill(made.targets, 0).sum(-1).max())


def plant(routing: Routing, *heads: int, size: Size | None = None, prefix: int = 0, beta: float = 30.0) -> Edit:
    """Return an edit of S that makes the given heads follow the routing: it adds β + log A at the targets.

    The first `prefix` tokens (CLS) are excluded, and queries that attend to nothing keep their scores. `size` is the
    size of the grid, which cannot be inferred from the sequence length.
    """

    def change(S: Tensor) -> Tensor:
        t, s = S.shape[-2:]
        if t != s:
            raise ShapeError(f"the layer has {t} queries and {s} keys", "choose a self-attention layer")
        ideal = routing.ideal(s - prefix if size is None else size).to(S)
        bonus = torch.zeros(s, s, dtype=S.dtype, device=S.device)
        bonus[prefix:, prefix:] = torch.where(ideal > 0, beta + ideal.log(), 0)
        return S + bonus

    return at_heads(change, *heads)
