"""A recording from a file: one channel, at the rate that a model hears."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.errors import InputError


def read_sound(path: str | Path, rate: int = RATE) -> Tensor:
    """(samples,) from −1 to 1: channels mixed into their mean, another rate resampled (WAV, FLAC, OGG)."""
    import soundfile

    try:
        data, given = soundfile.read(str(path), dtype="float32", always_2d=True)
    except Exception as error:  # libsndfile, the file system, memory: each has its own
        if not Path(path).exists():
            raise InputError(f"there is no {path}", "give a sound file") from None
        raise InputError(f"{path} cannot be read ({str(error)[:80]})", "give sound as WAV or FLAC") from None
    if not len(data):
        raise InputError(f"{path} has 0 samples", "give a recording")
    return resampled(torch.from_numpy(data.mean(1)), given, rate)


def resampled(wave: Tensor, given: int, rate: int) -> Tensor:
    """By a polyphase filter, which keeps out what the new rate cannot carry."""
    if given == rate:
        return wave
    from scipy.signal import resample_poly

    common = math.gcd(given, rate)
    return torch.from_numpy(resample_poly(wave.numpy(), rate // common, given // common).astype(np.float32))
