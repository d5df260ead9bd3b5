"""X = φ(C₂ φ(C₁ frames)): strided convolutions that map several log-mel frames to each vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.feedforward import ACTIVATIONS, Activation
from glassformer.nn.linear import Convolution
from glassformer.nn.tap import Tap

N = TypeVar("N", int, Tensor)
Kept = tuple[Tensor, ...]  # per convolution, the inputs that later outputs still need


@dataclass(frozen=True, kw_only=True)
class FrameConfig:
    """Configuration of strided convolutions over frames, with one kernel size and stride per convolution.

    By default causal: an output depends on no frame after those it represents. If `centred`, its context extends
    equally far in both directions.
    """

    bands: int
    width: int
    kernels: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = (2, 2)
    centred: bool = False
    activation: Activation = "gelu"

    def __post_init__(self) -> None:
        pairs = list(zip(self.kernels, self.strides, strict=False))
        if len(self.kernels) != len(self.strides) or not pairs:
            fact = f"there are {len(self.kernels)} kernels but {len(self.strides)} strides"
            raise ConfigError(fact, "give one kernel size and one stride for each convolution")
        if any(not 1 <= s <= k for k, s in pairs):
            fact = f"kernels {self.kernels} with strides {self.strides} skip frames"
            raise ConfigError(fact, "choose strides from 1 up to the kernel size")
        if self.centred and any(k % 2 == 0 for k in self.kernels):
            raise ConfigError(f"kernels {self.kernels} have no centre", "choose odd kernels, or centred=False")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"there is no activation {self.activation!r}", f"choose one of {', '.join(ACTIVATIONS)}")
        if self.bands < 1 or self.width < 1:
            raise ConfigError(f"bands is {self.bands} and width is {self.width}", "choose at least 1 of each")

    def before(self, i: int) -> int:
        """Return the number of zeros padded before the first input of convolution i."""
        return (self.kernels[i] - 1) // 2 if self.centred else self.kernels[i] - self.strides[i]

    @property
    def factor(self) -> int:
        """Number of frames per vector."""
        return math.prod(self.strides)

    @property
    def ahead(self) -> int:
        """Number of frames that vector j depends on after those it represents, j·factor … (j+1)·factor − 1."""
        last = 0
        for i in reversed(range(len(self.kernels))):
            last = last * self.strides[i] - self.before(i) + self.kernels[i] - 1
        return last - (self.factor - 1)

    def length(self, frames: N) -> N:
        """⌈… ⌈t / s₁⌉ / s₂ …⌉: the number of vectors for t frames."""
        for s in self.strides:
            frames = -(-frames // s)
        return frames


def whisper(bands: int, width: int) -> FrameConfig:
    """Return the configuration of Whisper's encoder: two frames per vector, centred."""
    return FrameConfig(bands=bands, width=width, strides=(1, 2), centred=True)


class FrameEmbedding(nn.Module):
    """Embed frames j·factor … (j+1)·factor − 1 as vector j; the last is zero-padded, so that no frame is lost."""

    def __init__(self, config: FrameConfig) -> None:
        super().__init__()
        self.config = c = config
        self.channels = (c.bands, *(c.width for _ in c.kernels[1:]))
        sizes = zip(self.channels, c.kernels, c.strides, strict=True)
        self.convolutions = nn.ModuleList(Convolution(size, c.width, k, stride=s) for size, k, s in sizes)
        self.X = Tap()

    def forward(
        self, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b n m"]:
        """Embed frames; those after a recording's length are set to 0 before each convolution."""
        Y = self.fit(frames).mT
        for i in range(len(self.convolutions)):
            if lengths is not None:
                after = torch.arange(Y.shape[-1], device=Y.device) >= lengths[:, None]
                Y = Y.masked_fill(after[:, None], 0)
                lengths = -(-lengths // self.config.strides[i])
            Y, _ = self.convolve(i, pad(Y, (self.config.before(i), 0)), end=True)
        return self.X(Y.mT)

    def start(self, batch: int = 1) -> Kept:
        """Return the initial state of `step`: zeros."""
        like = next(self.parameters())
        return tuple(like.new_zeros(batch, size, self.config.before(i)) for i, size in enumerate(self.channels))

    def step(
        self, frames: Float[Tensor, "b t bands"], kept: Kept, *, end: bool = False
    ) -> tuple[Float[Tensor, "b n m"], Kept]:
        """Streaming version of `forward`: returns the completed vectors and the new state; with `end`, all the rest."""
        Y = self.fit(frames).mT
        after = []
        for i, past in enumerate(kept):
            Y, rest = self.convolve(i, torch.cat([past, Y], -1), end=end)
            after.append(rest)
        return self.X(Y.mT), tuple(after)

    def convolve(self, i: int, Y: Float[Tensor, "b c t"], *, end: bool) -> tuple[Tensor, Tensor]:
        """φ(C_i Y) for all complete windows, at the end also for partial ones; and the inputs to keep."""
        k, s = self.config.kernels[i], self.config.strides[i]
        t = Y.shape[-1]
        count = -(-(t - self.config.before(i)) // s) if end else max(0, (t - k) // s + 1)
        need = (count - 1) * s + k
        if not count:
            return Y.new_zeros(len(Y), self.config.width, 0), Y
        convolved = self.convolutions[i](pad(Y, (0, max(0, need - t)))[..., :need])
        return ACTIVATIONS[self.config.activation](convolved), Y[..., count * s :]

    def fit(self, frames: Float[Tensor, "b t bands"]) -> Float[Tensor, "b t bands"]:
        if frames.shape[-1] != self.config.bands:
            fact = f"the frames have {frames.shape[-1]} bands, the embedding expects {self.config.bands}"
            raise ShapeError(fact, "compute the frames with that many bands")
        return frames
