"""sound → rows of CTC logits, as it arrives: any way of cutting the sound gives the same rows, to the last bit.

Sums in another order round differently, and a row in which two symbols are nearly equal would then say another letter.
So the sound is cut anew into pieces of one length before it is heard, and a whole recording is heard in the same ones.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import log_mel_start, log_mel_step, require_wave
from glassformer.core.masks import padding
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.tasks.symbols import Hearing, hearing_of

PEERS = (Recurrent, ConvNet1d)
AT_ONCE = 5  # vectors to a piece where the network has no chunks of its own


class Rows(NamedTuple):
    """Rows of logits that became final, and how many samples had then been heard."""

    logits: Float[Tensor, "n v"]
    samples: int


class _Stream(Protocol):
    def feed(self, wave: Tensor) -> Tensor: ...

    def finish(self) -> Tensor: ...


class Ear:
    """`feed` takes samples, any number at a time, and gives the rows that became final; `finish` gives the rest."""

    def __init__(self, model: nn.Module, hearing: Hearing | None = None) -> None:
        hearing = hearing_of(model) if hearing is None else hearing
        self.stream, vectors = _stream(model, hearing)
        self.rate = hearing.mel.rate
        self.piece = vectors * hearing.stack * hearing.mel.hop
        self.samples = 0
        self._mel, self._kept = hearing.mel, torch.zeros(0)

    @torch.no_grad()
    def feed(self, wave: Float[Tensor, " n"]) -> list[Rows]:
        wave = torch.cat([self._kept, require_wave(wave, self._mel, self.rate, empty=True).float()])
        count = len(wave) // self.piece
        self._kept = wave[count * self.piece :]
        return [self._heard(piece) for piece in wave[: count * self.piece].split(self.piece) if len(piece)]

    @torch.no_grad()
    def finish(self) -> list[Rows]:
        """No more sound comes."""
        last = self._heard(self._kept) if len(self._kept) else None
        if not self.samples:
            return []
        rest = Rows(self.stream.finish(), self.samples)
        return [rest] if last is None else [last, rest]

    def _heard(self, piece: Tensor) -> Rows:
        self.samples += len(piece)
        return Rows(self.stream.feed(piece), self.samples)


def _stream(model: nn.Module, hearing: Hearing) -> tuple[_Stream, int]:
    """What hears, and how many vectors at a time."""
    if isinstance(model, Speech):
        return model.stream(), 1
    if isinstance(model, PEERS):
        return _PeerStream(model, hearing), AT_ONCE
    raise InputError(f"a {type(model).__name__} does not listen", "load a recogniser: Speech, Recurrent, ConvNet1d")


class _PeerStream:
    """`stack` frames side by side to a vector, then the network that carries its state along."""

    def __init__(self, model: Recurrent | ConvNet1d, hearing: Hearing) -> None:
        self.model, self.hearing = model, hearing
        self._wave = log_mel_start(hearing.mel, 1)
        self._frames = torch.zeros(1, 0, hearing.mel.bands, dtype=torch.float64)
        self._state: tuple[object, ...] | None = None

    def feed(self, wave: Tensor) -> Tensor:
        return self._step(wave, end=False)

    def finish(self) -> Tensor:
        return self._step(torch.zeros(0), end=True)

    def _step(self, wave: Tensor, *, end: bool) -> Tensor:
        frames, self._wave = log_mel_step(wave.to(self._wave)[None], self._wave, self.hearing.mel, end=end)
        frames = torch.cat([self._frames, frames], 1)
        whole = frames.shape[1] if end else frames.shape[1] // self.hearing.stack * self.hearing.stack
        self._frames = frames[:, whole:]
        if not whole:
            return torch.zeros(0, len(self.hearing.symbols) + 1)
        # each network's own kind of state, handed back to it as it came
        logits, self._state = self.model.stream(stacked(frames[:, :whole].float(), self.hearing.stack), self._state)  # type: ignore[arg-type]
        return logits[0]


def stacked(frames: Float[Tensor, "b t bands"], stack: int) -> Float[Tensor, "b n f"]:
    """`stack` frames side by side; zeros complete the last."""
    frames = pad(frames, (0, 0, 0, -frames.shape[1] % stack))
    b, t, bands = frames.shape
    return frames.reshape(b, t // stack, stack * bands)


class Answers(NamedTuple):
    """Rows of logits of several recordings, and how many of each are its own."""

    logits: Float[Tensor, "b n v"]
    rows: Int[Tensor, " b"]


def answers(
    model: nn.Module, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], hearing: Hearing
) -> Answers:
    """All at once, as it is trained."""
    rows = -(-lengths // hearing.stack)
    if isinstance(model, Speech):
        return Answers(model(frames, lengths), rows)
    silent = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
    X = stacked(frames.masked_fill(silent[..., None], 0), hearing.stack)
    # what comes after a recording's end reaches no row of a causal network: unmasked, recurrence is four times as fast
    return Answers(model(X) if _causal(model) else model(X, padding(rows, X.shape[1])[:, 0, 0]), rows)


def _causal(model: nn.Module) -> bool:
    if isinstance(model, Recurrent):
        return not model.config.bidirectional
    return isinstance(model, ConvNet1d) and model.config.causal
