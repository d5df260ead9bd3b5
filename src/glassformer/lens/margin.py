"""How far key i may move before query j's largest weight moves to another key: gap / (|β| ‖q‖), and the factor α.

Only key i moves, so only S_ji does: S_ji + β q·δ. It is level with the score T to pass or to fall below when
β q·δ = T − S_ji, and the shortest such δ lies along q. Scaled by α it is level when α = 1 + (T − S_ji) / (β q·k_i).
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
    """For each query its winner; for each key i how far it may move (`distance`), or be scaled (`alpha`).

    `heir` is the key that wins beyond that: i itself, or the runner-up if i is the winner. Where nothing can make the
    largest weight move (a masked key, a query of 0, a key that is alone) distance and alpha are ∞ and the heir −1;
    alpha is ∞ by itself where q·k_i = 0. An alpha below 0 says that the key must be turned round.
    """

    winner: Int[Tensor, "*b t"]
    runner: Int[Tensor, "*b t"]
    gap: Float[Tensor, "*b t"]
    distance: Float[Tensor, "*b t s"]
    alpha: Float[Tensor, "*b t s"]
    heir: Int[Tensor, "*b t s"]


def margins_of(layer: Layer) -> Margins:
    """The margins of every query and key of a layer."""
    S = scores(layer.Q, layer.K, beta=layer.beta, mask=layer.mask, bias=layer.bias)
    places = torch.arange(S.shape[-1], device=S.device)
    winner = S.argmax(-1, keepdim=True)
    top = S.gather(-1, winner)
    others = S.masked_fill(places == winner, -math.inf)
    second, runner = others.max(-1, keepdim=True)
    runner = runner.where(torch.isfinite(second), -1)
    wins = places == winner
    needed = torch.where(wins, second, top) - S  # what S_ji must change by: below 0 for the winner
    slope = abs(layer.beta) * layer.Q.norm(dim=-1, keepdim=True)
    part = layer.beta * (layer.Q @ layer.K.mT)  # the part of S_ji that grows with the key
    distance = _ratio(needed.abs(), slope)
    alpha = 1 + _ratio(needed, part)
    heir = torch.where(wins, runner, places.expand_as(S)).where(torch.isfinite(distance), -1)
    return Margins(winner[..., 0], runner[..., 0], (top - second)[..., 0], distance, alpha, heir)


def _ratio(change: Tensor, per: Tensor) -> Tensor:
    """change / per, 0 if no change is needed, ∞ if none is possible."""
    ratio = change / per
    return torch.where(change == 0, 0.0, ratio.where(torch.isfinite(ratio), math.inf))


def smallest_change(layer: Layer, query: int, key: int) -> Float[Tensor, "*b d"]:
    """δ = ±distance · q/‖q‖: added to key i it brings the weight to where it moves; ∞ or NaN where nothing can."""
    margins = margins_of(layer.rows([query]))
    q = layer.Q[..., query, :]
    sign = torch.where(margins.winner[..., 0] == key, -1.0, 1.0) * math.copysign(1.0, layer.beta)
    return (sign * margins.distance[..., 0, key])[..., None] * q / q.norm(dim=-1, keepdim=True)


def margins(run: Run, path: str, head: int, query: int, *, batch: int = 0) -> Margins:
    """The margins of one query in a real run: `margins(run, "encoder.3.attention", head, query)`.

    The run must have watched that layer's A or S.
    """
    layer = scores_at(run, path).head(batch, head)
    if not 0 <= query < layer.Q.shape[0]:
        raise InputError(f"there is no query {query}", f"they are 0 to {layer.Q.shape[0] - 1}")
    return Margins(*(part[0] for part in margins_of(layer.rows([query]))))
