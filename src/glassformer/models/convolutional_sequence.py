"""y_t = Σⱼ Wⱼ x_{t − d j}, d = 1, 2, 4, …: residual dilated convolutions over sequences.

van den Oord et al., "WaveNet", 2016; Bai, Kolter, Koltun, "An Empirical Evaluation of Generic Convolutional and
Recurrent Networks for Sequence Modeling", 2018. Causal: position t sees itself and previous ones; centred: both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from glassformer.core.attention import require_dropout
from glassformer.errors import ConfigError, ShapeError
from glassformer.models.protocols import Reach
from glassformer.models.registry import register
from glassformer.models.sequence import SequenceNetwork
from glassformer.models.sequence_io import (
    Frames,
    Pool,
    Real,
    Sequence,
    SequenceHead,
    Tokens,
    check_real,
    he_uniform,
    require_pool,
    require_positive,
    require_streamable,
)
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Convolution, Embedding, Linear, initialise
from glassformer.nn.norm import LayerNorm
from glassformer.nn.tap import Tap

Past = tuple[Tensor, ...]  # for each convolution in order, its last (kernel − 1)·dilation inputs


@dataclass(frozen=True, kw_only=True)
class ConvNet1dConfig:
    """Config of a dilated convolutional network. Dilations double over `cycle` blocks, then restart at 1."""

    reads: Tokens | Frames
    classes: int
    pool: Pool
    width: int
    blocks: int
    cycle: int
    kernel: int = 3
    causal: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = {"classes": self.classes, "width": self.width, "blocks": self.blocks, "cycle": self.cycle}
        require_positive(**sizes, kernel=self.kernel)
        require_dropout(self.dropout)
        require_pool(self.pool)
        if not self.causal and self.kernel % 2 == 0:
            raise ConfigError(f"a kernel of {self.kernel} has no centre", "choose an odd kernel, or causal")

    @property
    def dilations(self) -> tuple[int, ...]:
        return tuple(2 ** (block % self.cycle) for block in range(self.blocks))

    @property
    def reaches(self) -> tuple[int, ...]:
        """Reach of each convolution (two per block) beyond its own position: (kernel − 1)·dilation."""
        return tuple((self.kernel - 1) * dilation for dilation in self.dilations for _ in range(2))

    @property
    def receptive_field(self) -> int:
        """Number of inputs that one output depends on."""
        return 1 + sum(self.reaches)

    @property
    def parameters(self) -> int:
        m = self.width
        reads = self.reads.vocabulary * m if isinstance(self.reads, Tokens) else (self.reads.features + 1) * m
        block = 2 * m + 2 * (self.kernel * m + 1) * m
        return reads + self.blocks * block + 2 * m + (m + 1) * self.classes


def tiny(reads: Tokens | Frames, classes: int, pool: Pool = "none", *, causal: bool = True) -> ConvNet1dConfig:
    return ConvNet1dConfig(reads=reads, classes=classes, pool=pool, width=8, blocks=3, cycle=2, kernel=3, causal=causal)


def tcn(reads: Tokens | Frames, classes: int, pool: Pool = "none", *, causal: bool = True) -> ConvNet1dConfig:
    """Eight blocks with dilations up to 128: each output depends on the last 1021 inputs."""
    return ConvNet1dConfig(
        reads=reads, classes=classes, pool=pool, width=128, blocks=8, cycle=8, kernel=3, causal=causal, dropout=0.1
    )


class DilatedConv(nn.Module):
    """y_t = b + Σⱼ Wⱼ x_{t − d j} for j = 0 … k−1 (causal), or x_{t + d (k−1)/2 − d j} (centred); zero padding."""

    def __init__(self, width: int, kernel: int, dilation: int, *, causal: bool) -> None:
        super().__init__()
        self.W = Convolution(width, width, kernel, dilation=dilation)
        self.reach = (kernel - 1) * dilation
        self.causal = causal

    def forward(self, X: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return Y for each x, and the inputs that the next positions still need."""
        if past is None:
            left = self.reach if self.causal else self.reach // 2
            X = pad(X, (0, 0, left, self.reach - left))
        else:
            X = torch.cat([past, X], 1)
        return self.W(X.mT).mT, X[:, X.shape[1] - self.reach :]


class DilatedBlock(nn.Module):
    """Y = X + W₂ ∗ U, U = ReLU(W₁ ∗ norm(X)). The norm acts on each position separately, which preserves causality."""

    def __init__(self, config: ConvNet1dConfig, dilation: int) -> None:
        super().__init__()
        self.norm = LayerNorm(config.width)
        self.W1 = DilatedConv(config.width, config.kernel, dilation, causal=config.causal)
        self.W2 = DilatedConv(config.width, config.kernel, dilation, causal=config.causal)
        self.dropout = nn.Dropout(config.dropout)
        self.U, self.Y = Tap(), Tap()

    def forward(self, X: Tensor, real: Tensor | None, past: Past | None) -> tuple[Tensor, Past]:
        before1, before2 = (None, None) if past is None else past
        P, past1 = self.W1(_kept(self.norm(X), real), before1)
        U = self.U(relu(P))
        Y, past2 = self.W2(_kept(self.dropout(U), real), before2)
        return self.Y(X + Y), (past1, past2)


def _kept(X: Tensor, real: Tensor | None) -> Tensor:
    """Set padding to zero, as beyond the end of a sequence, so that results do not depend on the batch."""
    return X if real is None else X.masked_fill(~real[..., None], 0)


class ConvolutionOutput(NamedTuple):
    logits: Float[Tensor, "..."]
    past: Past


@register
class ConvNet1d(SequenceNetwork):
    """Token ids (b, t) or frames (b, t, features) to logits (b, t, classes), or pooled to (b, classes)."""

    def __init__(self, config: ConvNet1dConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        m = config.width
        reads = config.reads
        self.E = Embedding(reads.vocabulary, m) if isinstance(reads, Tokens) else Linear(reads.features, m)
        self.blocks = nn.ModuleList(DilatedBlock(config, dilation) for dilation in config.dilations)
        self.norm = LayerNorm(m)
        self.head = SequenceHead(m, config.classes, config.pool)
        self.X, self.logits = Tap(), Tap()
        initialise(self, seed, he_uniform)

    def forward(self, X: Sequence, real: Real | None = None) -> Float[Tensor, "..."]:
        self.config.reads.check(X)
        if real is not None:
            check_real(real, X)
        return self._run(X, real, None).logits

    def start(self, batch: int) -> Past:
        """Initial state of a stream: zeros."""
        zeros = self.norm.gamma.new_zeros
        return tuple(zeros(batch, reach, self.config.width) for reach in self.config.reaches)

    def stream(self, X: Sequence, past: Past | None = None) -> ConvolutionOutput:
        """Process the next positions; chunks of any length give the outputs of the whole. Pass `past` back in."""
        if not self.config.causal:
            raise ConfigError("a centred convolution sees the future", "stream a causal one")
        require_streamable(self.config.pool)
        self.config.reads.check(X)
        past = self.start(len(X)) if past is None else past
        if past[0].shape[0] != len(X):
            fact = f"{len(X)} sequences continue a stream of {past[0].shape[0]}"
            raise ShapeError(fact, "keep the batch, or start again without past")
        return self._run(X, None, past)

    def _run(self, X: Tensor, real: Tensor | None, past: Past | None) -> ConvolutionOutput:
        X = self.X(self.E(X))
        seen: list[Tensor] = []
        for n, block in enumerate(self.blocks):
            X, last = block(X, real, None if past is None else past[2 * n : 2 * n + 2])
            seen += last
        logits = self.logits(self.head(self.norm(X), real))
        return ConvolutionOutput(require_finite(logits, self), tuple(seen))

    # ---- capabilities ----

    @property
    def causal(self) -> bool:
        return self.config.causal

    @property
    def example_length(self) -> int:
        return 2 * self.config.receptive_field

    @property
    def reach(self) -> Reach:
        c = self.config
        both = sum(reach // 2 for reach in c.reaches)
        return Reach(lookahead=0, left=sum(c.reaches)) if c.causal else Reach(lookahead=both, left=both)

    def sizes(self) -> dict[str, str]:
        c = self.config
        field = f"{c.receptive_field} inputs"
        return {"blocks": f"{c.blocks} × {c.width}", "receptive field": field, "classes": str(c.classes)}
