"""Reading audio files as mono samples at the model's sample rate, and streaming resampling."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.errors import InputError, ShapeError

REACH = 10  # half-width of the filter in samples of the slower rate, as in scipy


def read_sound(path: str | Path | io.BytesIO, rate: int = RATE) -> Tensor:
    """Read WAV, FLAC or OGG as (samples,) from −1 to 1: channels averaged, resampled to `rate`."""
    import soundfile

    file = path if isinstance(path, io.BytesIO) else str(path)
    try:
        data, given = soundfile.read(file, dtype="float32", always_2d=True)
    except Exception as error:  # libsndfile, the file system and memory each raise their own type
        if isinstance(file, str) and not Path(file).exists():
            raise InputError(f"there is no file {path}", "give an audio file") from None
        raise InputError(f"{path} cannot be read ({str(error)[:80]})", "give a WAV, FLAC or OGG file") from None
    if not len(data):
        raise InputError(f"{path} has 0 samples", "give a recording")
    return resampled(torch.from_numpy(data.mean(1)), given, rate)


def as_samples(array: NDArray[Any] | Tensor) -> NDArray[np.float32]:
    """Return samples from −1 to 1 as float32: integers, such as 16-bit PCM, are divided by their full scale."""
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        return array.astype(np.float32)
    full = 2.0 ** (8 * array.dtype.itemsize - 1)
    return (array / full - (array.dtype.kind == "u")).astype(np.float32)


def resampled(wave: Tensor, given: int, rate: int) -> Tensor:
    """Resample with a polyphase anti-aliasing filter."""
    if given == rate:
        return wave
    from scipy.signal import resample_poly

    common = math.gcd(given, rate)
    return torch.from_numpy(resample_poly(wave.numpy(), rate // common, given // common).astype(np.float32))


class Resampler:
    """Streaming version of `resampled`: returns the same samples with a short delay."""

    def __init__(self, given: int, rate: int) -> None:
        if given < 1 or rate < 1:
            raise InputError(f"cannot resample from {given} Hz to {rate} Hz", "give sample rates of at least 1 Hz")
        common = math.gcd(given, rate)
        self.given, self.rate = given, rate
        self.up, self.down = rate // common, given // common
        reach = -(-REACH * max(self.up, self.down) // self.up) + 1
        self.reach = -(-reach // self.down) * self.down  # in input samples, a multiple of `down`
        self._kept, self._before = torch.zeros(0), 0  # buffered input, and how many of its samples are context only

    def feed(self, wave: Tensor) -> Tensor:
        if wave.dim() != 1:
            raise ShapeError(f"a stream received audio of shape {tuple(wave.shape)}", "give one channel of samples")
        if self.given == self.rate:
            return wave
        self._kept = torch.cat([self._kept, wave.float()])
        ready = (len(self._kept) - self.reach) // self.down * self.down
        return self._give(ready) if ready > self._before else torch.zeros(0)

    def finish(self) -> Tensor:
        """Flush the remaining samples at the end of the stream."""
        return torch.zeros(0) if len(self._kept) <= self._before else self._give(len(self._kept))

    def _give(self, until: int) -> Tensor:
        whole = resampled(self._kept, self.given, self.rate)
        last = len(whole) if until == len(self._kept) else until // self.down * self.up
        out = whole[self._before // self.down * self.up : last]
        drop = max(0, until - self.reach)
        self._kept, self._before = self._kept[drop:], until - drop
        return out
