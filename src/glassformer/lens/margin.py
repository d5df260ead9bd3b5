"""How far key i may move before query j's largest weight moves to another key: gap / (|β| ‖q‖), and the factor α.

Only key i moves, so only S_ji changes: S_ji + β q·δ. Let T be the score that it must exceed or fall below. It reaches T
when β q·δ = T − S_ji, and the shortest such δ is parallel to q. If k_i is scaled by α, it reaches T when
α = 1 + (T − S_ji) / (β q·k_i).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core import scores
from glassformer.errors import InputError
from glassformer.lens.sensitivity import Layer, scores_at
from glassformer.lens.trace import Run


class Margins(NamedTuple):
    """The key with the largest weight per query; how far each key i may move (`distance`) or be scaled (`alpha`).

    `successor` is the key that wins beyond that: i itself, or the runner-up if i is the winner. Where nothing can
    change the winner (a masked key, a zero query, a single key), distance and alpha are ∞ and the successor is −1;
    where only q·k_i = 0, alpha alone is ∞. A negative alpha means that the key must reverse its direction.
    """

    winner: Int[Tensor, "*b t"]
    runner: Int[Tensor, "*b t"]
    gap: Float[Tensor, "*b t"]
    distance: Float[Tensor, "*b t s"]
    alpha: Float[Tensor, "*b t s"]
    successor: Int[Tensor, "*b t s"]


def margins_of(layer: Layer) -> Margins:
    """Compute the margins of every query and key of a layer."""
    S = scores(layer.Q, layer.K, beta=layer.beta, mask=layer.mask, bias=layer.bias)
    places = torch.arange(S.shape[-1], device=S.device)
    winner = S.argmax(-1, keepdim=True)
    top = S.gather(-1, winner)
    others = S.masked_fill(places == winner, -math.inf)
    second, runner = others.max(-1, keepdim=True)
    runner = runner.where(torch.isfinite(second), -1)
    wins = places == winner
    needed = torch.where(wins, second, top) - S  # the required change of S_ji: negative for the winner
    slope = abs(layer.beta) * layer.Q.norm(dim=-1, keepdim=True)
    part = layer.beta * (layer.Q @ layer.K.mT)  # the part of S_ji that is linear in the key
    distance = _ratio(needed.abs(), slope)
    alpha = 1 + _ratio(needed, part)
    successor = torch.where(wins, runner, places.expand_as(S)).where(torch.isfinite(distance), -1)
    return Margins(winner[..., 0], runner[..., 0], (top - second)[..., 0], distance, alpha, successor)


def _ratio(change: Tensor, per: Tensor) -> Tensor:
    """change / per; 0 if no change is needed, ∞ if none is possible."""
    ratio = change / per
    return torch.where(change == 0, 0.0, ratio.where(torch.isfinite(ratio), math.inf))


def smallest_change(layer: Layer, query: int, key: int) -> Float[Tensor, "*b d"]:
    """δ = ±distance · q/‖q‖: the smallest change of key i at which the winner changes; ∞ or NaN if there is none."""
    margins = margins_of(layer.rows([query]))
    q = layer.Q[..., query, :]
    sign = torch.where(margins.winner[..., 0] == key, -1.0, 1.0) * math.copysign(1.0, layer.beta)
    return (sign * margins.distance[..., 0, key])[..., None] * q / q.norm(dim=-1, keepdim=True)


def margins(run: Run, path: str, head: int, query: int, *, batch: int = 0) -> Margins:
    """Compute the margins of one query in a traced run: `margins(run, "encoder.3.attention", head, query)`.

    The run must have traced A or S of that layer.
    """
    layer = scores_at(run, path).head(batch, head)
    if not 0 <= query < layer.Q.shape[0]:
        raise InputError(f"there is no query {query}", f"they are 0 to {layer.Q.shape[0] - 1}")
    return Margins(*(part[0] for part in margins_of(layer.rows([query]))))
