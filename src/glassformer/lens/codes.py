"""S_ts = β (T_h E_t) · (G E_s): codes of places and the maps that make each head's scores largest at its target.

one-hot: E_s = e_s, T_h moves e_t to e_π(t); any π, width n. Gap 1.
quadratic: −‖p_s − p_t − δ‖² but for what is the same for all keys (softargmax does not see it), from E = (p, ‖p‖², 1):
T_h E = (2p + 2δ, −1), G E = (p, ‖p‖²). Width 2 or 3 a head at any length. Gap 1. (Cordonnier et al. 2020.)
sinusoidal: E_{p+δ} = R_δ E_p turns each pair of sines, so S = β Σ_i cos ω_i(p_s − p_t − δ). The gap is measured.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.positions import shift_matrix, sinusoidal_at
from glassformer.errors import ConfigError
from glassformer.lens.routing import Routing, Size

CODES = ("one-hot", "quadratic", "sinusoidal")
_SINES = 16  # columns for each axis


class Code(NamedTuple):
    """Codes E of the n places and then of what lies outside (M, p); T (h, d, p), G (d, p); targets (h, n, M)."""

    E: Tensor
    T: Tensor
    G: Tensor
    targets: Tensor


def code(kind: str, routing: Routing, size: Size) -> Code:
    """The code of that kind for a routing; not every kind has every edge."""
    if kind not in CODES:
        raise ConfigError(f"there is no code {kind!r}", f"choose one of {', '.join(CODES)}")
    if kind == "one-hot":
        return one_hot(routing, size)
    edges = ("zero", "hold") if kind == "quadratic" else ("zero",)
    if routing.order is not None or routing.edges not in edges:
        what = "a permutation" if routing.order is not None else f"{routing.edges} edges"
        raise ConfigError(f"{kind} codes know only offsets and cannot do {what}", "choose the one-hot code")
    return quadratic(routing, size) if kind == "quadratic" else sinusoidal(routing, size)


def one_hot(routing: Routing, size: Size) -> Code:
    """One column more, and one key of value 0, where some query looks at nothing."""
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
    """Places inside, row by row, then those outside that some tap reaches; and which of them each tap looks at."""
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
    p = places - places.mean(0)  # smaller numbers, the same differences
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
    """How far, at β = 1, every target's score lies above every other key's: min over heads and queries."""
    K = made.E @ made.G.T
    smallest = float("inf")
    for T, targets in zip(made.T, made.targets, strict=True):
        S = made.E[: targets.shape[0]] @ T.T @ K.T
        if bool(targets.all()):  # one key alone
            continue
        worst = S.masked_fill(~targets, float("inf")).amin(-1)
        rival = S.masked_fill(targets, -float("inf")).amax(-1)
        smallest = min(smallest, float((worst - rival).min()))
    return smallest
