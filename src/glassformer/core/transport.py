"""Earth mover's distance: the minimum cost of transporting one distribution into another, and an optimal plan.

min Σ_ij T_ij C_ij over plans T ≥ 0 with row sums p and column sums q (Kantorovich). Cost is mass times distance, so
distributions of total mass 1 give the Wasserstein distance W₁. All arithmetic is in float64, whatever the input dtype.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Real
from torch import Tensor

from glassformer.errors import InputError, ShapeError

TOLERANCE = 1e-5  # relative to the total mass: float32 error of a softargmax over thousands of keys


class Move(NamedTuple):
    """cost = mass · distance for moving `mass` from index `source` of p to index `target` of q; 0 if it stays."""

    source: int
    target: int
    mass: float
    cost: float


class Transport(NamedTuple):
    """distance = Σ cost of the moves; the rows of the plan sum to p and its columns to q."""

    distance: float
    plan: Float[Tensor, "n m"]
    moves: tuple[Move, ...]


def distance_1d(
    p: Real[Tensor, "*b n"], q: Real[Tensor, "*c m"], positions: Real[Tensor, " k"] | None = None
) -> Float[Tensor, "*b"]:
    """W₁ = Σ_k |P_k − Q_k| (x_{k+1} − x_k), the area between the cumulative sums P and Q.

    Batched and differentiable. `positions` default to 0, 1, … and need not be sorted.
    """
    _same_places(p, q, positions)
    p, q = _heap("p", p), _balanced(p, q)
    x, order = _line(p.shape[-1], positions).to(p.device).sort()
    gap = (p - q)[..., order].cumsum(-1)[..., :-1].abs()
    return (gap * x.diff()).sum(-1)


def emd_1d(p: Real[Tensor, " n"], q: Real[Tensor, " m"], positions: Real[Tensor, " k"] | None = None) -> Transport:
    """T_ij = max(0, min(P_i, Q_j) − max(P_{i−1}, Q_{j−1})): on a line, the order-preserving plan is optimal.

    P and Q are cumulative sums along the line; the distance is the area between them (`distance_1d`).
    """
    _same_places(p, q, positions)
    p, q = _heap("p", p), _balanced(p, q)
    x = _line(len(p), positions).to(p.device)
    order = x.argsort()
    P, Q = p[order].cumsum(0), q[order].cumsum(0)
    before = lambda total: torch.cat([total.new_zeros(1), total[:-1]])
    ranked = torch.minimum(P[:, None], Q) - torch.maximum(before(P)[:, None], before(Q))
    # discard spurious mass caused by rounding in the cumulative sums
    ranked = ranked.where(ranked > len(p) * torch.finfo(P.dtype).eps * P[-1], 0.0)
    plan = torch.zeros_like(ranked)
    plan[order[:, None], order] = ranked
    return _transport(plan, (x[:, None] - x).abs(), distance_1d(p, q, positions).item())


def emd(
    p: Real[Tensor, " n"], q: Real[Tensor, " m"], C: Real[Tensor, "rows cols"], *, iterations: int = 10_000_000
) -> Transport:
    """min Σ_ij T_ij C_ij for any cost matrix C, with a row per entry of p and a column per entry of q.

    Solved with POT's network simplex.
    """
    import ot  # imported here because it takes about a second

    if tuple(C.shape) != (len(p), len(q)):
        fact = f"costs of {tuple(C.shape)} do not fit {len(p)} entries of p and {len(q)} of q"
        raise ShapeError(fact, "give a row for each entry of p and a column for each of q")
    p, q, C = _heap("p", p), _balanced(p, q), C.double()
    if not C.isfinite().all():
        raise InputError("the cost matrix has a NaN or an infinity", "give finite costs")
    mass = p.sum()
    # POT rejects marginals whose sums differ in the last bits, so normalise both to 1
    arrays = (a.detach().cpu().numpy() for a in (p / mass, q / mass, C))
    plan, log = ot.emd(*arrays, numItermax=iterations, log=True)
    if log["warning"] is not None:
        raise InputError(f"no optimal plan was found ({log['warning']})", "allow more iterations, or rescale the costs")
    T = mass * torch.from_numpy(plan).to(p.device)
    return _transport(T, C, (T * C).sum().item())


def _transport(plan: Tensor, C: Tensor, distance: float) -> Transport:
    cells = [(i, j, plan[i, j].item()) for i, j in plan.nonzero().tolist()]
    return Transport(distance, plan, tuple(Move(i, j, mass, mass * C[i, j].item()) for i, j, mass in cells))


def _same_places(p: Tensor, q: Tensor, positions: Tensor | None) -> None:
    if p.shape != q.shape:
        raise ShapeError(f"p of {tuple(p.shape)} and q of {tuple(q.shape)} must have the same shape", "pad with zeros")
    if positions is not None and len(positions) != p.shape[-1]:
        fact = f"{len(positions)} positions do not fit {p.shape[-1]} masses"
        raise ShapeError(fact, "give one position for each mass")


def _line(n: int, positions: Tensor | None) -> Tensor:
    x = torch.arange(n, dtype=torch.float64) if positions is None else positions.double()
    if not x.isfinite().all():
        raise InputError("a position is NaN or infinite", "give finite positions")
    return x


def _heap(name: str, p: Tensor) -> Tensor:
    """Return p in float64 after checking that its masses are finite, ≥ 0 and not all 0."""
    if p.shape[-1] == 0:
        raise ShapeError(f"{name} is empty", "give at least one")
    p = p.double()
    for wrong, what in ((~p.isfinite(), "not finite"), (p < 0, "negative")):
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            at = str(place[0]) if len(place) == 1 else str(place)
            raise InputError(f"the mass {p[place].item():g} of {name} at {at} is {what}", "give masses of 0 or more")
    if not (p.sum(-1) > 0).all():
        raise InputError(f"{name} has no mass (its sum is 0)", "give at least one positive mass")
    return p


def _balanced(p: Tensor, q: Tensor) -> Tensor:
    """Return q in float64, checked and rescaled (within the tolerance) so that its sum equals that of p."""
    q, mass = _heap("q", q), p.double().sum(-1, keepdim=True)
    total = q.sum(-1, keepdim=True)
    unequal = ((total - mass).abs() > TOLERANCE * mass).flatten()
    if unequal.any():
        k = int(unequal.nonzero()[0])
        fact = f"p has mass {mass.flatten()[k].item():.9g} and q has {total.flatten()[k].item():.9g}"
        raise InputError(fact, "scale one of them: transport preserves the total mass")
    return q * (mass / total)
