"""What `find_leaks` needs of our own models: the model as an encoder, an example, what it declares, and its stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.core.audio import log_mel
from glassformer.errors import InputError
from glassformer.lens.leaks import Declared, LeakReport, Streaming, find_leaks
from glassformer.lens.receptive import Encoder, Progress
from glassformer.models import ConvNet1d, Decoder, Recurrent, Tokens
from glassformer.models import Encoder as TextEncoder
from glassformer.models.speech import Speech, SpeechConfig

FRAMES = 48


class Subject(NamedTuple):
    """The arguments of `find_leaks`."""

    encoder: Encoder
    example: Tensor
    declared: Declared
    streaming: Streaming | None = None
    seconds: float | None = None

    def find_leaks(
        self,
        *,
        pieces: tuple[int, ...] = (1, 3, 7),
        seed: int = 0,
        progress: Progress = lambda done, total: None,
    ) -> LeakReport:
        return find_leaks(
            self.encoder,
            self.example,
            declared=self.declared,
            streaming=self.streaming,
            pieces=pieces,
            seconds=self.seconds,
            seed=seed,
            progress=progress,
        )


def subject(model: nn.Module, *, frames: int | None = None, seed: int = 0) -> Subject:
    """One of our sequence models, with an example of so many frames (or tokens) and what its config promises."""
    if frames is not None and frames < 4:
        raise InputError(f"an example of {frames} frames", "choose at least 4")
    generator = torch.Generator().manual_seed(seed)
    match model:
        case Speech():
            return _speech(model, frames, generator)
        case ConvNet1d():
            c = model.config
            both = sum(reach // 2 for reach in c.reaches)
            declared = Declared(lookahead=0, left=sum(c.reaches)) if c.causal else Declared(lookahead=both, left=both)
            example = _example(model, frames or 2 * c.receptive_field, generator)
            return Subject(model, example, declared, partial(_chain, model) if c.causal else None)
        case Recurrent():
            example = _example(model, frames or FRAMES, generator)
            if model.config.bidirectional:
                return Subject(model, example, Declared(lookahead=None))
            return Subject(model, example, Declared(lookahead=0), partial(_chain, model))
        case Decoder():
            t = frames or min(FRAMES, model.config.length)
            window = model.config.text.window
            left = None if window is None else (window - 1) * model.config.text.depth
            tokens = torch.randint(model.config.text.vocabulary, (2, t), generator=generator)
            return Subject(model, tokens, Declared(lookahead=0, left=left), partial(_cached, model, t))
        case TextEncoder():
            tokens = torch.randint(model.config.text.vocabulary, (2, frames or 16), generator=generator)
            return Subject(model, tokens, Declared(lookahead=None))
    fact = f"what a {type(model).__name__} may hear is not known"
    raise InputError(fact, "give find_leaks an encoder, an example and what it declares")


def _example(model: ConvNet1d | Recurrent, frames: int, generator: torch.Generator) -> Tensor:
    reads = model.config.reads
    if model.config.pool != "none":
        raise InputError(f"the model answers once, pooled by {model.config.pool}", 'look at one with pool "none"')
    if isinstance(reads, Tokens):
        return torch.randint(reads.vocabulary, (2, frames), generator=generator)
    return torch.randn(2, frames, reads.features, generator=generator).to(next(model.parameters()))


def _chain(model: ConvNet1d | Recurrent, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
    past: Any = None  # each model's own kind of state
    for piece in pieces:
        logits, past = model.stream(piece, past)
        yield logits


def _cached(model: Decoder, room: int, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
    cache = model.cache(room)
    for piece in pieces:
        yield model(piece, cache=cache)


def _speech(model: Speech, frames: int | None, generator: torch.Generator) -> Subject:
    """From sound to logits: a frame is the `hop` samples that come between two log-mel frames."""
    c = model.config
    mel, chunk = c.mel, c.chunks.chunk * c.embed.factor
    ahead = c.chunks.ahead(c.depth) * c.embed.factor + c.embed.ahead
    left = speech_left(c)
    t = frames or max(FRAMES, left + ahead + 3 * chunk)
    sound = 0.05 * torch.randn(1, t, mel.hop, generator=generator)

    def encode(X: Tensor) -> Tensor:
        return model(log_mel(X.flatten(1), mel, rate=mel.rate).to(next(model.parameters())))

    def stream(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        listener = model.stream(rate=mel.rate)
        for piece in pieces:
            yield listener.feed(piece.flatten())[None]
        yield listener.finish()[None]

    declared = Declared(lookahead=ahead, left=left, chunk=chunk, stride=c.embed.factor)
    return Subject(encode, sound, declared, stream, mel.hop / mel.rate)


def speech_left(c: SpeechConfig) -> int:
    """How far before its chunk a vector hears, in frames: each block after the first adds whole chunks, as ahead;

    then the convolutions, and the samples that a log-mel frame shares with those before.
    """
    left, chunk = c.chunks.left, c.chunks.chunk
    vectors = left + (c.depth - 1) * -(-left // chunk) * chunk
    back, step = 0, 1
    for i, stride in enumerate(c.embed.strides):
        back += step * c.embed.before(i)
        step *= stride
    return vectors * c.embed.factor + back - (-c.mel.overlap // c.mel.hop)
