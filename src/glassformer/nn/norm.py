"""y = γ (x − μ)/√(σ² + ε) + β and y = γ x/√(mean x² + ε): LayerNorm and RMSNorm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm, rms_norm

from glassformer.errors import ConfigError, ShapeError


@dataclass(frozen=True, kw_only=True)
class NormConfig:
    """Which norm, and its ε: published checkpoints differ in both, and a wrong ε is a wrong number.

    `bias` is LayerNorm's β; RMSNorm has none.
    """

    kind: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    bias: bool = True

    def __post_init__(self) -> None:
        if self.kind not in ("layer", "rms"):
            raise ConfigError(f"there is no norm {self.kind!r}", "choose layer or rms")
        if not self.eps >= 0:
            raise ConfigError(f"the norm's eps is {self.eps}", "choose a small number such as 1e-5")

    def build(self, width: int) -> LayerNorm | RMSNorm:
        return LayerNorm(width, self.eps, self.bias) if self.kind == "layer" else RMSNorm(width, self.eps)


class LayerNorm(nn.Module):
    """y = γ (x − μ)/√(σ² + ε) + β, with mean μ and variance σ² of each position (Ba, Kiros, Hinton 2016)."""

    def __init__(self, width: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        _require_width(x, self.gamma)
        return layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


class RMSNorm(nn.Module):
    """y = γ x/√(mean x² + ε) (Zhang, Sennrich 2019)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        _require_width(x, self.gamma)
        return rms_norm(x, self.gamma.shape, self.gamma, self.eps)


def _require_width(x: Tensor, gamma: Tensor) -> None:
    if x.shape[-1] != gamma.shape[0]:
        raise ShapeError(
            f"positions are {x.shape[-1]} wide, the norm {gamma.shape[0]}", "feed it vectors of the model's width"
        )
