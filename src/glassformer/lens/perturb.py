"""ΔH_j ≈ β A_ji (v_i − H_j) q_j·δ: the change predicted by the Jacobian, compared with the measured change.

This is the first-order change for a fixed δ. For noise ε with mean 0 and variance σ² in every coordinate, the mean of
the first-order term vanishes, and that of the second-order term is
E[ΔH_j] ≈ ½ β² σ² ‖q_j‖² A_ji (1 − 2 A_ji) (v_i − H_j).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.errors import InputError, ShapeError
from glassformer.lens.sensitivity import Layer, by_query, by_score

ROOM = 2**20  # weights held at once while sampling noise


class Change(NamedTuple):
    """Changes of A and H, predicted to first order and measured."""

    predicted_A: Float[Tensor, "*b t s"]
    measured_A: Float[Tensor, "*b t s"]
    predicted_H: Float[Tensor, "*b t e"]
    measured_H: Float[Tensor, "*b t e"]

    @property
    def error(self) -> float:
        """The largest difference between prediction and measurement, over A and H."""
        off = ((self.predicted_A - self.measured_A), (self.predicted_H - self.measured_H))
        return max(part.abs().max().item() for part in off)


def move_key(layer: Layer, key: int, delta: Float[Tensor, "*b d"]) -> Change:
    """k_i → k_i + δ: ΔA_j = β J_j[:, i] (q_j·δ), for every query j at once."""
    _require(layer.K, "key", key, delta)
    x = layer.beta * (layer.Q * delta.unsqueeze(-2)).sum(-1, keepdim=True)
    return _by_scores(layer, _moved_key(layer, key, delta), key, x)


def move_query(layer: Layer, query: int, delta: Float[Tensor, "*b d"]) -> Change:
    """q_j → q_j + δ: ΔA_j = β J_j K δ; other queries do not change, so only this row is returned (t = 1)."""
    _require(layer.Q, "query", query, delta)
    row = layer.rows([query])
    _, A, H = row.attend()
    _, A_after, H_after = row._replace(Q=row.Q + delta.unsqueeze(-2)).attend()
    dA = (by_query(A, row.K, row.beta) @ delta[..., None, :, None]).squeeze(-1)
    return Change(dA, A_after - A, dA @ row.V, H_after - H)


def scale_key(layer: Layer, key: int, alpha: float) -> Change:
    """k_i → α k_i: ΔA_j = (α − 1) β J_j[:, i] (q_j·k_i)."""
    _require(layer.K, "key", key)
    return move_key(layer, key, (alpha - 1) * layer.K[..., key, :])


def _by_scores(layer: Layer, after: Layer, key: int, x: Tensor) -> Change:
    """S_ji changes by x_j for one key i: ΔA_j = A_ji (e_i − A_j) x_j, ΔH_j = A_ji (v_i − H_j) x_j."""
    _, A, H = layer.attend()
    _, A_after, H_after = after.attend()
    dA = A[..., [key]] * (_one(A, key) - A) * x
    return Change(dA, A_after - A, by_score(A, H, layer.V)[..., key, :] * x, H_after - H)


def order_of_error(change: Callable[[float], Change], sizes: Sequence[float]) -> float:
    """The slope of log error over log size: 2 where the prediction is correct to first order."""
    errors = [change(size).error for size in sizes]
    if len(sizes) < 2 or min(errors) <= 0 or min(sizes) <= 0:
        raise InputError(f"sizes {list(sizes)} leave errors {errors}", "give two or more sizes > 0 that show an error")
    return fitted_exponent(sizes, errors)


def fitted_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ≈ c x^p: the slope of log y over log x."""
    a, b = (torch.tensor([math.log(v) for v in values], dtype=torch.float64) for values in (x, y))
    return float(((a - a.mean()) * (b - b.mean())).sum() / (a - a.mean()).square().sum())


class Moments(NamedTuple):
    """Mean and standard deviation of the changes of A and H under noise."""

    mean_A: Float[Tensor, "*b t s"]
    std_A: Float[Tensor, "*b t s"]
    mean_H: Float[Tensor, "*b t e"]
    std_H: Float[Tensor, "*b t e"]


class Noise(NamedTuple):
    """Effect of noise: means predicted to second order and deviations to first, and both measured over samples."""

    predicted: Moments
    measured: Moments


def noise_on_key(
    layer: Layer, key: int, sigma: float, *, samples: int = 1000, generator: torch.Generator | None = None
) -> Noise:
    """k_i + ε, ε ~ N(0, σ²): E[ΔA_j] ≈ ½ β²σ²‖q_j‖² A_ji (1 − 2 A_ji) (e_i − A_j), and with v_i − H_j for H."""
    _require(layer.K, "key", key)
    _, A, H = layer.attend()
    spread = sigma * abs(layer.beta) * layer.Q.norm(dim=-1, keepdim=True)  # standard deviation of S_ji
    bend = 0.5 * spread.square() * (1 - 2 * A[..., [key]])
    dA, dH = A[..., [key]] * (_one(A, key) - A), by_score(A, H, layer.V)[..., key, :]
    predicted = Moments(bend * dA, spread * dA.abs(), bend * dH, spread * dH.abs())

    def noisy(many: Layer) -> Layer:
        return _moved_key(many, key, _normal(many.K[..., key, :], sigma, generator))

    return Noise(predicted, _measured(layer, noisy, samples))


def noise_on_query(
    layer: Layer, query: int, sigma: float, *, samples: int = 1000, generator: torch.Generator | None = None
) -> Noise:
    """q_j + ε: E[ΔA_ja] ≈ ½ β²σ² A_ja (‖k_a − k̄‖² − Σ_c A_jc ‖k_c − k̄‖²), k̄ = Σ A_j k; that row alone (t = 1)."""
    _require(layer.Q, "query", query)
    row = layer.rows([query])
    A, K, V = row.attend().A, row.K, row.V
    square = (K.unsqueeze(-3) - (A @ K).unsqueeze(-2)).square().sum(-1)
    mean = 0.5 * (row.beta * sigma) ** 2 * A * (square - (A * square).sum(-1, keepdim=True))
    slope = by_query(A, K, row.beta)
    deviation = [sigma * part.norm(dim=-1) for part in (slope, V.mT.unsqueeze(-3) @ slope)]
    predicted = Moments(mean, deviation[0], mean @ V, deviation[1])

    def noisy(many: Layer) -> Layer:
        return many._replace(Q=many.Q + _normal(many.Q, sigma, generator))

    return Noise(predicted, _measured(row, noisy, samples))


def _measured(layer: Layer, noisy: Callable[[Layer], Layer], samples: int) -> Moments:
    if samples < 2:
        raise InputError(f"samples must be at least 2, got {samples}", "draw at least 2 samples")
    before = layer.attend()
    at_once = max(1, ROOM // before.A.numel())
    sums = [torch.zeros_like(part) for part in (before.A, before.A, before.H, before.H)]
    for n in (*[at_once] * (samples // at_once), samples % at_once):
        Q, K, V = (part.expand(n, *part.shape) for part in (layer.Q, layer.K, layer.V))
        after = noisy(layer._replace(Q=Q, K=K, V=V)).attend()
        for i, change in enumerate((after.A - before.A, after.H - before.H)):
            sums[2 * i] += change.sum(0)
            sums[2 * i + 1] += change.square().sum(0)
    parts = []
    for total, squares in zip(sums[::2], sums[1::2], strict=True):
        mean = total / samples
        parts += [mean, ((squares - samples * mean.square()) / (samples - 1)).clamp_min(0).sqrt()]
    return Moments(*parts)


def _moved_key(layer: Layer, key: int, delta: Tensor) -> Layer:
    at = torch.arange(layer.K.shape[-2], device=layer.K.device)[:, None] == key
    return layer._replace(K=layer.K + at * delta.unsqueeze(-2))


def _normal(like: Tensor, sigma: float, generator: torch.Generator | None) -> Tensor:
    return torch.empty_like(like).normal_(0, sigma, generator=generator)


def _one(A: Tensor, key: int) -> Tensor:
    """e_i: weights that attend to key i only."""
    return (torch.arange(A.shape[-1], device=A.device) == key).to(A.dtype)


def _require(part: Tensor, name: str, index: int, delta: Tensor | None = None) -> None:
    if not 0 <= index < part.shape[-2]:
        raise InputError(f"there is no {name} {index}", f"they are 0 to {part.shape[-2] - 1}")
    if delta is not None and delta.shape[-1:] != part.shape[-1:]:
        fact = f"the change has shape {tuple(delta.shape)}, but a {name} has width {part.shape[-1]}"
        raise ShapeError(fact, "give one vector")
