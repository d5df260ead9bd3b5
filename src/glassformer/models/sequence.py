"""Common base of recurrent and convolutional networks over token ids or frames.

Log-mel frames are concatenated, `stack` of them to a vector, since these networks have no frame embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, log_mel_start, log_mel_step
from glassformer.core.masks import padding
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.sequence_io import Sequence, Tokens
from glassformer.models.sessions import StreamSession


def stack_frames(frames: Float[Tensor, "b t bands"], stack: int) -> Float[Tensor, "b n f"]:
    """Concatenate every `stack` frames to one vector; the last is padded with zeros."""
    frames = pad(frames, (0, 0, 0, -frames.shape[1] % stack))
    b, t, bands = frames.shape
    return frames.reshape(b, t // stack, stack * bands)


def stacked_logits(
    model: Any, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], *, stack: int, causal: bool
) -> Float[Tensor, "b n v"]:
    """model(stacked frames) of whole recordings, as in training."""
    rows = -(-lengths // stack)
    silent = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
    X = stack_frames(frames.masked_fill(silent[..., None], 0), stack)
    # padding after a recording does not affect a causal network: without a mask, recurrence is four times as fast
    logits: Tensor = model(X) if causal else model(X, padding(rows, X.shape[1])[:, 0, 0])
    return logits


class StackedFrameStream:
    """Samples → log-mel frames → stacked vectors → model.stream, which carries the state."""

    def __init__(self, model: Any, mel: MelConfig, stack: int) -> None:
        self.model, self.mel, self.stack = model, mel, stack
        self._wave = log_mel_start(mel, 1)
        self._frames = torch.zeros(1, 0, mel.bands, dtype=torch.float64)
        self._state: Any = None
        self._weight = next(model.parameters())

    def feed(self, wave: Float[Tensor, " n"]) -> Float[Tensor, "k v"]:
        return self._step(wave, end=False)

    def finish(self) -> Float[Tensor, "k v"]:
        return self._step(torch.zeros(0), end=True)

    @torch.no_grad()
    def _step(self, wave: Tensor, *, end: bool) -> Tensor:
        frames, self._wave = log_mel_step(wave.to(self._wave)[None], self._wave, self.mel, end=end)
        frames = torch.cat([self._frames, frames], 1)
        whole = frames.shape[1] if end else frames.shape[1] // self.stack * self.stack
        self._frames = frames[:, whole:]
        if not whole:
            return torch.zeros(0, self.model.config.classes)
        X = stack_frames(frames[:, :whole], self.stack).to(self._weight)
        logits, self._state = self.model.stream(X, self._state)
        first: Tensor = logits[0]
        return first


class SequenceNetwork(nn.Module):
    """Capabilities derived from `config.reads`, `config.pool` and `causal`."""

    config: Any
    pooled_input: InputKind = "frames"
    head_names = ("head",)
    piece = 5  # vectors per step of an audio stream, regardless of how the samples are chunked
    step_seconds: float | None = None

    @property
    def inputs(self) -> tuple[InputKind, ...]:
        """Frames are audio if there is an output for each of them (CTC)."""
        if isinstance(self.config.reads, Tokens):
            return ("text",)
        return ("audio",) if self.config.pool == "none" else (self.pooled_input,)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        reads, pool = self.config.reads, self.config.pool
        if isinstance(reads, Tokens):
            return ("generate",) if self.predicts_tokens and self.causal else ()
        if pool == "none":
            return ("transcribe",) if self.causal else ()
        return ("classify",) if self.pooled_input == "image" else ()

    @property
    def causal(self) -> bool:
        """Whether outputs depend only on the current and previous positions, so that the network can stream."""
        raise NotImplementedError

    @property
    def example_length(self) -> int:
        """Number of inputs that cover the network's whole reach."""
        return 48

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def context_length(self) -> int | None:
        return None

    @property
    def vocabulary(self) -> int:
        return self.config.classes

    @property
    def predicts_tokens(self) -> bool:
        reads = self.config.reads
        return isinstance(reads, Tokens) and self.config.pool == "none" and reads.vocabulary == self.config.classes

    def token_logits(self, output: Tensor) -> Tensor:
        return output

    def session(self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = ()) -> StreamSession:
        if start:
            raise ConfigError(f"start tokens {start} for a language model", "put them at the front of the prompt")
        if not self.predicts_tokens:
            fact = f"a {type(self).__name__} reads {self.config.reads} and answers {self.config.classes} classes"
            raise ConfigError(fact, "only a model that predicts the tokens it reads can generate")
        return StreamSession(self, vocabulary=self.config.classes, ends=ends)

    def embeddings(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the pooled output as the embedding, for networks trained on sentence pairs."""
        return self(tokens, real)

    def ctc_logits(
        self, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], *, stack: int
    ) -> Float[Tensor, "b n v"]:
        return stacked_logits(self, frames, lengths, stack=stack, causal=self.causal)

    def audio_stream(self, mel: MelConfig, *, stack: int) -> StackedFrameStream:
        return StackedFrameStream(self, mel, stack)

    def example(self, length: int | None, generator: torch.Generator) -> Tensor:
        reads, t = self.config.reads, length or self.example_length
        if self.config.pool != "none":
            raise InputError(f"the model answers once, pooled by {self.config.pool}", 'use a model with pool "none"')
        if isinstance(reads, Tokens):
            return torch.randint(reads.vocabulary, (2, t), generator=generator)
        return torch.randn(2, t, reads.features, generator=generator).to(next(self.parameters()))

    def respond(self, X: Tensor) -> Tensor:
        return self(X)

    def respond_in_chunks(self, pieces: Iterable[Tensor]) -> Iterator[Tensor] | None:
        return self._pieces(pieces) if self.causal else None

    def stream(self, X: Sequence, past: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs for the next positions, and the state to pass back in."""
        raise NotImplementedError

    def _pieces(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        past = None
        for piece in pieces:
            logits, past = self.stream(piece, past)
            yield logits
