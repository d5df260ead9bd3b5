"""p(text | audio): log-mel frames, two convolutions, an encoder with sinusoidal positions, a decoder attending to it.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022. `core.audio.whisper_log_mel`
computes the frames of 30 s of audio.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.positions import sinusoidal
from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.describe import stack_size
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.seq2seq import EncoderDecoder, Memory, require_memory
from glassformer.models.sessions import MemorySession
from glassformer.nn import (
    BlockConfig,
    FeedForwardConfig,
    FrameConfig,
    FrameEmbedding,
    Learned,
    NormConfig,
    Stack,
    Tap,
    View,
    frames,
    heads,
)
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.text import TextConfig, TextStack, WordHead


@dataclass(frozen=True, kw_only=True)
class WhisperConfig:
    """Config of an encoder of `places` positions with `embed.factor` frames each, and of the decoder (`target`).

    Generated tokens run from `start` to `end`. `tied`: the head shares the token table.
    """

    embed: FrameConfig
    block: BlockConfig
    depth: int
    places: int
    target: TextConfig
    start: int
    end: int
    last_norm: NormConfig = NormConfig()
    tied: bool = True

    def __post_init__(self) -> None:
        if self.embed.width != self.width:
            fact = f"the embedding is {self.embed.width} wide, the encoder's blocks {self.width}"
            raise ConfigError(fact, "give both the encoder's width")
        if self.places < 1 or self.width % 2 or self.width < 4:
            fact = f"there are {self.places} sinusoidal positions of width {self.width}"
            raise ConfigError(fact, "choose at least one position, and an even width of at least 4")
        if not isinstance(self.target.positions, Learned):
            raise ConfigError("the decoder has no learned positions", "give it positions=Learned(length=…)")
        require_memory(self.target, self.width)

    @property
    def width(self) -> int:
        return self.block.attention.width

    @property
    def frames(self) -> int:
        """Maximum number of frames of a window."""
        return self.places * self.embed.factor

    @property
    def length(self) -> int:
        """Maximum number of generated tokens, including the start token."""
        assert isinstance(self.target.positions, Learned)
        return self.target.positions.length


def plain(
    bands: int, width: int, depth: int, count: int, *, vocabulary: int, places: int, length: int, start: int, end: int
) -> WhisperConfig:
    """Pre-norm, GELU, feed-forward layers of four times the width, keys without bias, in encoder and decoder."""
    attention = heads(width, count, biases="qvo")
    ffn = FeedForwardConfig(width=width, hidden=4 * width)
    speaks = BlockConfig(attention=attention, cross=attention, ffn=ffn)
    return WhisperConfig(
        embed=frames.whisper(bands, width),
        block=BlockConfig(attention=attention, ffn=ffn),
        depth=depth,
        places=places,
        target=TextConfig(
            vocabulary=vocabulary, depth=depth, block=speaks, positions=Learned(length=length), last_norm=NormConfig()
        ),
        start=start,
        end=end,
    )


def tiny() -> WhisperConfig:
    return plain(6, 12, 2, 3, vocabulary=20, places=10, length=12, start=2, end=1)


def tiny_en() -> WhisperConfig:
    """Whisper tiny.en: 37 million parameters, windows of 30 s."""
    return plain(80, 384, 4, 6, vocabulary=51864, places=1500, length=448, start=50257, end=50256)


@register
class Whisper(EncoderDecoder):
    """memory = encoder(embed(frames) + E); logits[t] = head(decoder(target ≤ t, memory))."""

    def __init__(self, config: WhisperConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = c = config
        self.embed = FrameEmbedding(c.embed)
        # E is given by a formula but stored as a weight: published checkpoints contain it with their own rounding
        self.positions = nn.Parameter(torch.zeros(c.places, c.width), requires_grad=False)
        self.E, self.X = Tap(), Tap()
        self.dropout = nn.Dropout(c.block.dropout)
        self.encoder = Stack(c.block, c.depth, last_norm=c.last_norm)
        self.decoder = TextStack(c.target)
        self.word_head = WordHead(c.target.vocabulary, c.target.width, tied=c.tied)
        initialise(self, seed, normal(0.02))
        if not self.positions.is_meta:
            with torch.no_grad():
                self.positions.copy_(sinusoidal(c.places, c.width, layout="halves", divisor="d/2-1"))

    def encode(self, frames: Float[Tensor, "b t bands"], real: Bool[Tensor, "b t"] | None = None) -> Memory:
        """Encode the frames. `real` is False after a recording's last frame; those positions are not attended to.

        Published models expect 30 s without a mask: pad the audio with zeros before computing its frames.
        """
        lengths = None if real is None else self._lengths(real, frames)
        X = self.embed(self._fit(frames).to(self.positions.dtype), lengths)
        attended = None
        if lengths is not None:
            attended = torch.arange(X.shape[1], device=X.device) < self.config.embed.length(lengths)[:, None]
        X = self.X(self.dropout(X + self.E(self.positions[: X.shape[1]])))
        X = self.encoder(X, View(mask=None if attended is None else attended[:, None, None]))
        return Memory(require_finite(X, self), attended)

    def forward(
        self,
        frames: Float[Tensor, "b t bands"],
        target: Int[Tensor, "b n"],
        frames_real: Bool[Tensor, "b t"] | None = None,
        target_real: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n v"]:
        return self.decode(target, self.encode(frames, frames_real), target_real)

    def _lengths(self, real: Tensor, frames: Tensor) -> Int[Tensor, " b"]:
        if real.shape != frames.shape[:2]:
            fact = f"real is {tuple(real.shape)} for frames of {tuple(frames.shape)}"
            raise ShapeError(fact, "give one for each frame")
        if has_values(real) and not (real[:, 0].all() and (real[:, :-1] >= real[:, 1:]).all()):
            raise MaskError(
                "a recording has padding before its last frame",
                "pad each recording at its end, and leave out empty ones",
            )
        return real.sum(1)

    def _fit(self, frames: Tensor) -> Tensor:
        if frames.dim() != 3 or not frames.shape[1]:
            raise ShapeError(f"frames have shape {tuple(frames.shape)}", "give (batch, at least one frame, bands)")
        if frames.shape[1] > self.config.frames:
            fact = f"{frames.shape[1]} frames exceed the model's window of {self.config.frames}"
            raise ShapeError(fact, "split the audio into windows")
        return frames

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("audio", "text")
    verbs: tuple[Verb, ...] = ("transcribe",)

    @property
    def vocabulary(self) -> int:
        return self.config.target.vocabulary

    @property
    def context_length(self) -> int:
        return self.config.length

    @property
    def window(self) -> int:
        return self.config.frames

    @property
    def bands(self) -> int:
        return self.config.embed.bands

    @property
    def factor(self) -> int:
        return self.config.embed.factor

    @property
    def start_token(self) -> int:
        return self.config.start

    @property
    def end_token(self) -> int:
        return self.config.end

    def session(
        self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = (), cached: bool = True
    ) -> MemorySession:
        return MemorySession(self, start=start, ends=ends, check=self._check_frames, cached=cached)

    def _check_frames(self, frames: Tensor) -> None:
        bands, most = self.bands, self.window
        real = frames.is_floating_point()
        if frames.dim() != 2 or frames.shape[1] != bands or not real or not 1 <= len(frames) <= most:
            kind = str(frames.dtype).removeprefix("torch.")
            fact = f"frames are {kind} of shape {tuple(frames.shape)}"
            raise InputError(fact, f"give each as 1 to {most} frames of {bands} bands (core.whisper_log_mel)")

    def sizes(self) -> dict[str, str]:
        c = self.config
        sides = f"{c.depth} × {c.width}, {c.block.attention.heads} heads + {stack_size(c.target)}"
        context = f"{c.frames} frames of {c.embed.bands} bands, {c.length} tokens"
        return {"layers": sides, "vocabulary": f"{c.target.vocabulary:,}", "context": context}
