"""samples → rows of CTC logits as they arrive, bit-identical however the audio is split into chunks.

Sums in a different order round differently, and a row with two nearly equal characters could then be decoded
differently. Samples are therefore regrouped into pieces of fixed length, and a whole recording is processed in the same
pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.audio import require_wave
from glassformer.errors import InputError
from glassformer.models.protocols import CTCModel, can, device_of
from glassformer.pipelines.speech.charset import RecognizerConfig, recognizer_config


class LogitRows(NamedTuple):
    """Rows of logits that became final, and the number of samples received by then."""

    logits: Float[Tensor, "n v"]
    samples: int


class CTCStream:
    """A CTC stream: `feed` takes any number of samples and returns the rows that became final; `finish` the rest."""

    def __init__(self, model: nn.Module, recognizer: RecognizerConfig | None = None) -> None:
        if not isinstance(model, CTCModel) or not can(model, "transcribe"):
            raise InputError(f"this {type(model).__name__} does not stream speech", "load a causal CTC recogniser")
        recognizer = recognizer_config(model) if recognizer is None else recognizer
        self.stream = model.audio_stream(recognizer.mel, stack=recognizer.stack)
        self.rate = recognizer.mel.rate
        self.piece = model.piece * recognizer.stack * recognizer.mel.hop
        self.samples = 0
        self._mel, self._kept = recognizer.mel, torch.zeros(0)

    @torch.no_grad()
    def feed(self, wave: Float[Tensor, " n"]) -> list[LogitRows]:
        wave = torch.cat([self._kept, require_wave(wave, self._mel, self.rate, empty=True).float().cpu()])
        count = len(wave) // self.piece
        self._kept = wave[count * self.piece :]
        return [self._rows(piece) for piece in wave[: count * self.piece].split(self.piece) if len(piece)]

    @torch.no_grad()
    def finish(self) -> list[LogitRows]:
        """End the stream and return the remaining rows."""
        last = self._rows(self._kept) if len(self._kept) else None
        if not self.samples:
            return []
        rest = LogitRows(self.stream.finish().cpu(), self.samples)
        return [rest] if last is None else [last, rest]

    def _rows(self, piece: Tensor) -> LogitRows:
        self.samples += len(piece)
        return LogitRows(self.stream.feed(piece).cpu(), self.samples)


class CTCRows(NamedTuple):
    """Rows of logits of several recordings, and the number of valid rows of each."""

    logits: Float[Tensor, "b n v"]
    rows: Int[Tensor, " b"]


def ctc_rows(
    model: nn.Module, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], recognizer: RecognizerConfig
) -> CTCRows:
    """Compute all rows at once, as in training, on the model's device."""
    assert isinstance(model, CTCModel)
    frames, lengths = frames.to(device_of(model)), lengths.to(device_of(model))
    return CTCRows(model.ctc_logits(frames, lengths, stack=recognizer.stack), -(-lengths // recognizer.stack))
