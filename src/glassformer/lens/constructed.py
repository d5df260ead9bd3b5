"""Attention with weights that do exactly this: a shift, a permutation, any convolution; and how exactly, as β grows.

The bound. Let every target's score lie at least g above every other key's (at β = 1), M keys. The weight that misses
the target is ε ≤ m/(1 + m) with m = (M − 1) e^{−βg}, since each other key has at most e^{−βg} of the target's weight.
A head's output is off by |Σ_s A_ts v_s − v_π| = |Σ_{s≠π} A_ts (v_s − v_π)| ≤ ε · 2 max|V|, and W_O adds heads up:
    max|O − target| ≤ 2 ε max|V| ‖C‖,    ‖C‖ = max_o Σ_h Σ_c |C_h[o, c]|.
For a renormalised band the target is Σ_band (w/Σw) v, a mean over the keys of the band, which share 1 − ε in exactly
those proportions: the same bound. Turned round: for a tolerance τ let η = τ / (2 max|V| ‖C‖), and
    β ≥ log((M − 1)(1 − η)/η) / g.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, ShapeError
from glassformer.lens.codes import Code, code, gap
from glassformer.lens.routing import Routing, Size
from glassformer.nn import AttentionConfig, MultiHeadAttention, View


class Constructed(nn.Module):
    """`[X | E]` asks `[X | E]` and what lies outside, whose content is 0: our own attention with its weights set.

    One head of keys (the codes) and one of values (the tokens themselves) serve all heads; W_Q tells each where to look
    and W_O carries the coefficients C_h. A renormalised band has log w as a bias on S.
    """

    E: Tensor
    bias: Tensor | None

    def __init__(self, routing: Routing, size: Size, made: Code, kind: str, beta: float) -> None:
        super().__init__()
        self.routing, self.size, self.kind = routing, routing.grid(size), kind
        self.gap = gap(made)
        if self.gap <= 1e-9:
            raise ConfigError(
                f"{kind} codes do not tell the places of {routing.name} apart at size {size}",
                "choose a smaller size, or the one-hot code",
            )
        self.register_buffer("E", made.E)
        self.register_buffer("bias", _band_bias(routing, size))
        self.targets = made.targets
        self.attention = _attention(routing, made, beta)
        self.double()

    @property
    def keys(self) -> int:
        """M: the places, and those outside."""
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
        """ε(β): the most weight that any head leaves to keys that are not its target."""
        if self.gap == math.inf:  # there are no others
            return 0.0
        m = (self.keys - 1) * math.exp(-beta * self.gap)
        return m / (1 + m)

    def bound(self, beta: float, largest: float) -> float:
        """2 ε max|V| ‖C‖."""
        return 2 * self.missed(beta) * largest * self.norm

    def beta_for(self, tolerance: float, largest: float) -> float:
        """The β at which the bound is the tolerance; 0 if any β will do."""
        if tolerance <= 0:
            raise ConfigError(f"a tolerance of {tolerance:g}", "choose one above 0; softargmax reaches 0 at β = ∞")
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
    """log w inside the band; outside it the row's least of them, so that β alone keeps those keys away."""
    if routing.edges != "renormalised":
        return None
    A = routing.ideal(size)
    inside = A > 0
    least = A.masked_fill(~inside, math.inf).amin(-1, keepdim=True)
    return torch.where(inside, A, least).log()


def build(routing: Routing, size: Size, *, beta: float = 30.0, kind: str = "one-hot") -> Constructed:
    """A module that does what the routing says to sequences (or grids, row by row) of that size.

    `kind` is how it knows places: one-hot, quadratic or sinusoidal codes (see `codes`).
    """
    return Constructed(routing, size, code(kind, routing, size), kind, beta)
