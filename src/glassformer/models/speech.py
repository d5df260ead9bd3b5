"""p(symbol or blank | audio), frame by frame: log-mel frames, convolutions, chunk-wise attention, a CTC head.

Graves et al., "Connectionist Temporal Classification", 2006; Zhang et al., "Unified Streaming and Non-streaming
Two-pass End-to-end Model", 2020 (chunks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

from glassformer.core.audio import MEL, RATE, MelConfig, log_mel, log_mel_start, log_mel_step, require_wave
from glassformer.core.masks import fill_empty_rows, padding
from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.describe import stack_size
from glassformer.models.protocols import InputKind, Reach, Verb
from glassformer.models.registry import register
from glassformer.nn import BlockConfig, FeedForwardConfig, Linear, NormConfig, Rotary, Stack, View, heads
from glassformer.nn.finite import require_finite
from glassformer.nn.frames import FrameConfig, FrameEmbedding
from glassformer.nn.linear import initialise
from glassformer.nn.positions import Biased
from glassformer.nn.streaming import Chunks, StackStream
from glassformer.nn.tap import Tap

BLANK = 0
AT_ONCE = 64  # vectors that a stream computes per step, or a chunk if that is longer: bounds memory for any input


class Latency(NamedTuple):
    """Maximum delay from the start of a vector's audio until it is final, in vectors and in seconds."""

    frames: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SpeechConfig:
    """Config of a streaming CTC model. Classes 1 … `vocabulary` of the logits are the symbols, class 0 is the blank."""

    mel: MelConfig
    embed: FrameConfig
    block: BlockConfig
    depth: int
    chunks: Chunks
    vocabulary: int
    positions: Rotary | Biased
    last_norm: NormConfig | None = NormConfig()

    def __post_init__(self) -> None:
        if self.embed.bands != self.mel.bands:
            fact = f"mel has {self.mel.bands} bands, but embed has {self.embed.bands}"
            raise ConfigError(fact, "give both the same number of bands")
        if self.embed.width != self.width:
            fact = f"the embedding is {self.embed.width} wide, the blocks {self.width}"
            raise ConfigError(fact, "give both the model's width")
        if self.block.cross is not None:
            raise ConfigError("the blocks of a speech encoder have cross-attention", "choose cross=None")
        if self.vocabulary < 1:
            raise ConfigError(
                f"vocabulary must be at least 1, got {self.vocabulary}", "choose at least one symbol besides the blank"
            )

    @property
    def width(self) -> int:
        return self.block.attention.width

    @property
    def seconds(self) -> float:
        """Duration of one vector, and so of one row of logits."""
        return self.embed.factor * self.mel.hop / self.mel.rate

    def horizon(self, t: int) -> int:
        """Number of samples that make row t of the logits final: no later ones affect it, and a stream returns it."""
        chunk = self.chunks.chunk
        vectors = (t // chunk + 1) * chunk + self.chunks.ahead(self.depth)
        return (vectors * self.embed.factor + self.embed.ahead) * self.mel.hop

    @property
    def latency(self) -> Latency:
        """chunk + look-ahead through all blocks, for the first row of a chunk, which has the largest latency."""
        return Latency(self.chunks.chunk + self.chunks.ahead(self.depth), self.horizon(0) / self.mel.rate)


def plain(
    width: int,
    depth: int,
    count: int,
    *,
    vocabulary: int,
    chunks: Chunks,
    mel: MelConfig = MEL,
    dropout: float = 0.0,
) -> SpeechConfig:
    """Pre-norm, GELU, feed-forward layers of four times the width, rotary positions, one vector every 40 ms."""
    block = BlockConfig(
        attention=heads(width, count, dropout=dropout),
        ffn=FeedForwardConfig(width=width, hidden=4 * width, dropout=dropout),
        dropout=dropout,
    )
    return SpeechConfig(
        mel=mel,
        embed=FrameConfig(bands=mel.bands, width=width),
        block=block,
        depth=depth,
        chunks=chunks,
        vocabulary=vocabulary,
        positions=Rotary(width=width // count),
    )


def tiny() -> SpeechConfig:
    mel = MelConfig(bands=8)
    return plain(16, 2, 2, vocabulary=5, chunks=Chunks(chunk=2, left=4, right=1), mel=mel)


def small(vocabulary: int = 28) -> SpeechConfig:
    """6.6 million parameters, 0.64 s of latency. The default vocabulary is letters, space and apostrophe."""
    return plain(256, 8, 4, vocabulary=vocabulary, chunks=Chunks(chunk=16, left=64), dropout=0.1)


@register
class Speech(nn.Module):
    """logits = W norm(blocks(embed(frames))), one row for each vector; `core.audio.log_mel` computes the frames."""

    def __init__(self, config: SpeechConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = c = config
        self.embed = FrameEmbedding(c.embed)
        self.encoder = Stack(c.block, c.depth, positions=c.positions, last_norm=c.last_norm)
        self.head, self.logits = Linear(c.width, c.vocabulary + 1), Tap()
        initialise(self, seed)

    def forward(
        self, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b n v"]:
        """Compute all rows at once, with the mask of a stream; `lengths` are the numbers of frames without padding.

        The first `self.rows(lengths)` rows belong to each recording.
        """
        X = self.embed(self._checked(frames, lengths), lengths)
        mask = self.config.chunks.mask(X.shape[1], device=X.device)
        if lengths is not None:
            real = padding(self.rows(lengths), X.shape[1])
            mask = fill_empty_rows(mask & real)  # padding that attends to nothing real; its output is unused
        return self.logits(self.head(require_finite(self.encoder(X, View(mask=mask)), self)))

    def rows(self, lengths: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """Number of rows of logits for these numbers of frames."""
        return self.config.embed.length(lengths)

    def loss(
        self,
        frames: Float[Tensor, "b t bands"],
        lengths: Int[Tensor, " b"],
        targets: Int[Tensor, "b s"],
        target_lengths: Int[Tensor, " b"],
    ) -> Float[Tensor, ""]:
        """−log p(target | frames) by CTC, per symbol of a target, then averaged over recordings."""
        logp = self(frames, lengths).log_softmax(-1).transpose(0, 1)
        rows = self.rows(lengths)
        self._fit(rows, targets, target_lengths)
        return ctc_loss(logp, targets, rows, target_lengths, blank=BLANK)

    def stream(self, *, rate: int = RATE) -> SpeechStream:
        """Create a stream that takes audio as it arrives, at `rate` samples per second."""
        return SpeechStream(self, rate)

    def _checked(self, frames: Tensor, lengths: Tensor | None) -> Tensor:
        if frames.dim() != 3 or not frames.shape[1]:
            raise ShapeError(f"frames have shape {tuple(frames.shape)}", "give (batch, at least one frame, bands)")
        if not has_values(frames):
            return frames
        b, t, _ = frames.shape
        good = torch.isfinite(frames)
        if lengths is not None:
            if lengths.shape != (b,) or bool(((lengths < 1) | (lengths > t)).any()):
                fact = f"lengths are {lengths.tolist()} for {b} recordings of up to {t} frames"
                raise ShapeError(fact, "give the number of frames of each recording, at least 1")
            good |= (torch.arange(t, device=frames.device) >= lengths[:, None])[..., None]
        if not good.all():
            row, t, band = (~good).nonzero()[0].tolist()
            fact = f"band {band} of frame {t} of recording {row} is {float(frames[row, t, band])}"
            raise InputError(fact, "make the frames from finite samples")
        return frames

    def _fit(self, rows: Tensor, targets: Tensor, target_lengths: Tensor) -> None:
        """Check that a target has enough rows: one for each symbol, and one for the blank between two equal symbols."""
        for i, (n, s) in enumerate(zip(rows.tolist(), target_lengths.tolist(), strict=True)):
            if not 0 <= s <= targets.shape[1]:
                raise ShapeError(f"target {i} has {s} of {targets.shape[1]} symbols", "give its real length")
            target = targets[i, :s]
            if s and not 1 <= int(target.min()) <= int(target.max()) <= self.config.vocabulary:
                fact = f"target {i} goes from {int(target.min())} to {int(target.max())}"
                raise InputError(fact, f"symbols are 1 to {self.config.vocabulary}; {BLANK} is the blank")
            need = s + int((target[1:] == target[:-1]).sum())
            if need > n:
                fact = f"target {i} needs {need} rows and its audio gives {n}"
                raise InputError(fact, "leave it out, or embed fewer frames in a vector")

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("audio",)
    verbs: tuple[Verb, ...] = ("transcribe",)
    piece = 1  # its own stream processes pieces of fixed length

    @property
    def mel(self) -> MelConfig:
        return self.config.mel

    @property
    def row_seconds(self) -> float:
        return self.config.seconds

    def ctc_logits(
        self, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], *, stack: int
    ) -> Float[Tensor, "b n v"]:
        return self(frames, lengths)

    def audio_stream(self, mel: MelConfig, *, stack: int) -> SpeechStream:
        return self.stream()

    def sizes(self) -> dict[str, str]:
        c = self.config
        latency = f"{c.latency.seconds:.2f} s"
        return {"layers": stack_size(c), "symbols": str(c.vocabulary), "latency": latency}

    @property
    def step_seconds(self) -> float:
        return self.config.mel.hop / self.config.mel.rate

    @property
    def reach(self) -> Reach:
        """Reach from samples to logits; a step is the `hop` samples between two log-mel frames."""
        c = self.config
        ahead = c.chunks.ahead(c.depth) * c.embed.factor + c.embed.ahead
        return Reach(
            lookahead=ahead, left=self._left, chunk=c.chunks.chunk * c.embed.factor, stride=c.embed.factor
        )

    @property
    def _left(self) -> int:
        """Number of frames before its chunk that a vector depends on.

        Each block after the first adds whole chunks; then come the convolutions, and the samples that a log-mel frame
        shares with previous ones.
        """
        c = self.config
        left, chunk = c.chunks.left, c.chunks.chunk
        vectors = left + (c.depth - 1) * -(-left // chunk) * chunk
        back, step = 0, 1
        for i, stride in enumerate(c.embed.strides):
            back += step * c.embed.before(i)
            step *= stride
        return vectors * c.embed.factor + back - (-c.mel.overlap // c.mel.hop)

    def example(self, length: int | None, generator: torch.Generator) -> Tensor:
        """Random samples (1, t, hop)."""
        lookahead, left, chunk, _ = self.reach
        t = length or max(48, (left or 0) + (lookahead or 0) + 3 * chunk)
        return 0.05 * torch.randn(1, t, self.config.mel.hop, generator=generator)

    def respond(self, X: Tensor) -> Tensor:
        mel = self.config.mel
        return self(log_mel(X.flatten(1), mel, rate=mel.rate).to(next(self.parameters())))

    def respond_in_chunks(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        stream = self.stream(rate=self.config.mel.rate)
        for piece in pieces:
            yield stream.feed(piece.flatten())[None]
        yield stream.finish()[None]


class SpeechStream:
    """Streaming inference: `feed` takes samples and returns the rows of logits that became final; `finish` the rest.

    Together they equal the rows of the offline pass, including the first and the last. Memory and the cost of a chunk
    do not grow with the length of the stream.
    """

    def __init__(self, model: Speech, rate: int = RATE) -> None:
        c = self.config = model.config
        if model.training and max(c.block.dropout, c.block.attention.dropout, c.block.ffn.dropout) > 0:
            raise InputError("the model is in training mode, where dropout is active", "call eval() before streaming")
        require_wave(torch.zeros(1), c.mel, rate)
        self.model, self.rate = model, rate
        self.finished = False
        self._waiting = torch.zeros(0, dtype=torch.float64)  # samples that complete no chunk yet
        self._received = self._chunks = 0  # samples before them, and the chunks that these completed
        self._wave = log_mel_start(c.mel, 1)
        self._frames = model.embed.start()
        self._stack = StackStream(model.encoder, c.chunks)

    @property
    def latency(self) -> Latency:
        return self.config.latency

    @property
    def stored_values(self) -> int:
        """Number of values in the buffers and caches."""
        return sum(part.numel() for part in (self._waiting, self._wave, *self._frames)) + self._stack.stored_values

    def feed(self, wave: Float[Tensor, " n"]) -> Float[Tensor, "k v"]:
        """Take one channel of samples in [−1, 1], of any length."""
        self._require_open()
        if wave.dim() != 1:
            fact = f"the audio has shape {tuple(wave.shape)}"
            raise ShapeError(fact, "give one channel; average several channels")
        wave = require_wave(wave, self.config.mel, self.rate, empty=True)
        self._waiting = torch.cat([self._waiting, wave.to(self._waiting)])
        rows = [next(self.model.parameters()).new_zeros(0, self.config.vocabulary + 1)]
        while (count := self._complete()) > 0:
            piece, self._waiting = self._waiting[:count], self._waiting[count:]
            rows.append(self._step(piece))
        return torch.cat(rows)

    def _complete(self) -> int:
        """Take the next chunks that the waiting samples complete, and return how many samples make them final."""
        c = self.config
        vectors = ((self._received + len(self._waiting)) // c.mel.hop - c.embed.ahead) // c.embed.factor
        chunks = min((vectors - c.chunks.right) // c.chunks.chunk, self._chunks + max(1, AT_ONCE // c.chunks.chunk))
        if chunks <= self._chunks:
            return 0
        received, self._chunks = self._received, chunks
        self._received = ((chunks * c.chunks.chunk + c.chunks.right) * c.embed.factor + c.embed.ahead) * c.mel.hop
        return self._received - received

    def finish(self) -> Float[Tensor, "k v"]:
        """End the stream and return all pending rows."""
        self._require_open()
        self.finished = True
        return self._step(self._waiting, end=True)

    @torch.no_grad()
    def _step(self, wave: Tensor, *, end: bool = False) -> Tensor:
        model = self.model
        frames, self._wave = log_mel_step(wave.to(self._wave)[None], self._wave, self.config.mel, end=end)
        X, self._frames = model.embed.step(frames.to(self._frames[0]), self._frames, end=end)
        return model.logits(model.head(require_finite(self._stack.step(X, end=end), model)))[0]

    def _require_open(self) -> None:
        if self.finished:
            raise InputError("this stream is finished", "start another with stream()")
