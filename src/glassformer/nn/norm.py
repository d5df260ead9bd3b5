"""y = γ (x − μ)/√(σ² + ε) + β and y = γ x/√(mean x² + ε): LayerNorm and RMSNorm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm, rms_norm

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class NormConfig:
    """Kind of norm and its ε. Published checkpoints differ in both, and a wrong ε gives wrong outputs.

    `bias` is LayerNorm's β; RMSNorm has none.
    """

    kind: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    bias: bool = True

    def __post_init__(self) -> None:
        if self.kind not in ("layer", "rms"):
            raise ConfigError(f"there is no norm {self.kind!r}", "choose layer or rms")
        if not self.eps >= 0:
            raise ConfigError(f"eps must be at least 0, got {self.eps}", "choose a small number such as 1e-5")

    def build(self, width: int) -> LayerNorm | RMSNorm:
        return LayerNorm(width, self.eps, self.bias) if self.kind == "layer" else RMSNorm(width, self.eps)


class LayerNorm(nn.Module):
    """y = γ (x − μ)/σ + β, σ = √(var + ε), with mean μ and variance per position (Ba, Kiros, Hinton 2016)."""

    def __init__(self, width: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps
        self.sigma, self.Y = Tap(), Tap()

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        _require_width(x, self.gamma)
        if self.sigma.used:
            centred = x - x.mean(-1, keepdim=True)
            edited, sigma = self.sigma.edited, self.sigma(_root_mean_square(centred, self.eps))
            if edited:
                y = centred / sigma * self.gamma
                return self.Y(y if self.beta is None else y + self.beta)
        return self.Y(layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps))


class RMSNorm(nn.Module):
    """y = γ x/σ, σ = √(mean x² + ε) (Zhang, Sennrich 2019)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.eps = eps
        self.sigma, self.Y = Tap(), Tap()

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        _require_width(x, self.gamma)
        if self.sigma.used:
            edited, sigma = self.sigma.edited, self.sigma(_root_mean_square(x, self.eps))
            if edited:
                return self.Y(x / sigma * self.gamma)
        return self.Y(rms_norm(x, self.gamma.shape, self.gamma, self.eps))


def _root_mean_square(x: Float[Tensor, "*b m"], eps: float) -> Float[Tensor, "*b 1"]:
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _require_width(x: Tensor, gamma: Tensor) -> None:
    if x.shape[-1] != gamma.shape[0]:
        raise ShapeError(
            f"the input has width {x.shape[-1]}, the norm expects {gamma.shape[0]}",
            "give it vectors of the model's width",
        )
