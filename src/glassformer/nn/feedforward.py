"""O = W2 φ(W1 X), or O = W2 (φ(W1 X) ⊙ W3 X): the position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from glassformer.core.attention import require_dropout
from glassformer.errors import ConfigError
from glassformer.nn.linear import Dropout, Linear, joint
from glassformer.nn.tap import Tap

Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "tanh"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,  # x Φ(x), Φ by erf
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),  # GPT-2
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),  # CLIP
    "silu": silu,  # also called swish
    "tanh": torch.tanh,
}


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig:
    """Configuration of a feed-forward network; `gated` with silu is SwiGLU (Shazeer 2020)."""

    width: int
    hidden: int
    activation: Activation = "gelu"
    gated: bool = False
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"there is no activation {self.activation!r}", f"choose one of {', '.join(ACTIVATIONS)}")
        if self.width < 1 or self.hidden < 1:
            raise ConfigError(
                f"width is {self.width} and hidden is {self.hidden}",
                "choose widths of at least 1",
            )
        require_dropout(self.dropout)


class FeedForward(nn.Module):
    """P = W1 X, F = φ(P), or F = φ(P) ⊙ G with G = W3 X if gated; O = W2 F."""

    def __init__(self, config: FeedForwardConfig) -> None:
        super().__init__()
        self.config = config
        self.W1 = Linear(config.width, config.hidden, bias=config.bias)
        self.W2 = Linear(config.hidden, config.width, bias=config.bias)
        self.W3 = Linear(config.width, config.hidden, bias=config.bias) if config.gated else None
        self.dropout = Dropout(config.dropout)
        self.P, self.F, self.O = Tap(), Tap(), Tap()
        self.G = Tap() if config.gated else None

    def forward(self, X: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        activation = ACTIVATIONS[self.config.activation]
        if self.W3 is None or self.G is None:
            F = activation(self.P(self.W1(X)))
        else:
            P, G = joint(X, self.W1, self.W3)
            F = activation(self.P(P)) * self.G(G)
        return self.O(self.W2(self.dropout(self.F(F))))
