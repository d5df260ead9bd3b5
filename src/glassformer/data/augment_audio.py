"""Audio augmentation: SpecAugment, speed perturbation, gain, noise and silence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, log_mel
from glassformer.errors import ConfigError, ShapeError

SPEEDS = (0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.12)


def spec_augment(
    frames: Tensor,
    random: torch.Generator,
    lengths: Tensor | None = None,
    *,
    bands: int = 2,
    width: int = 27,
    spans: int = 2,
    longest: int = 100,
    share: float = 0.2,
) -> Tensor:
    """SpecAugment on log-mel frames (b, t, m) or (t, m): `bands` masks of 0 … width mel bands and `spans` masks of
    0 … longest frames are replaced by the recording's mean; a time mask is at most `share` of the recording.

    Park et al., "SpecAugment", 2019, without time warping, which they find to matter least. `lengths` holds the
    number of frames of each recording before padding; padding is not masked.
    """
    if frames.dim() == 2:
        return spec_augment(
            frames[None], random, lengths, bands=bands, width=width, spans=spans, longest=longest, share=share
        )[0]
    if frames.dim() != 3:
        raise ShapeError(f"frames have shape {tuple(frames.shape)}", "give (recordings, frames, bands)")
    if not 0 <= share <= 1 or min(bands, width, spans, longest) < 0:
        fact = f"{bands} masks of up to {width} bands, {spans} of up to {longest} frames, share {share}"
        raise ConfigError(fact, "choose sizes of at least 0, and a share from 0 to 1")
    b, t, m = frames.shape
    lengths = torch.full((b,), t) if lengths is None else lengths.reshape(b).long()
    there = torch.arange(t) < lengths[:, None]
    low = _stripes(torch.full((b,), m), torch.full((b,), min(width, m)), bands, m, random)
    most = torch.minimum((share * lengths).long(), torch.tensor(longest))
    late = _stripes(lengths, most, spans, t, random)
    hidden = (low[:, None, :] | late[:, :, None]) & there[:, :, None]
    total = (frames * there[:, :, None]).sum((1, 2))
    mean = total / (lengths.clamp_min(1) * m)
    return torch.where(hidden, mean[:, None, None].to(frames.dtype), frames)


def _stripes(sizes: Tensor, most: Tensor, count: int, n: int, random: torch.Generator) -> Tensor:
    """Boolean mask (b, n): True under `count` random spans of 0 … most positions each, within 0 … size."""
    u = torch.rand(2, len(sizes), count, generator=random)
    wide = (u[0] * (most[:, None] + 1)).long()
    start = (u[1] * (sizes[:, None] - wide + 1)).long()
    at = torch.arange(n)
    return ((at >= start[..., None]) & (at < (start + wide)[..., None])).any(1)


def speed(wave: Tensor, random: torch.Generator, *, factors: Sequence[float] = (0.9, 1.0, 1.1)) -> Tensor:
    """(n,) → (n / f,): change speed and pitch by a random factor f. Ko et al., "Audio Augmentation", 2015."""
    if not factors:
        raise ConfigError("no speed factors were given", "give at least one, such as 1.0")
    return change_speed(wave, factors[int(torch.randint(len(factors), (1,), generator=random))])


def change_speed(wave: Tensor, factor: float) -> Tensor:
    """w′(t) = w(f t), resampled with a polyphase filter."""
    from scipy.signal import resample_poly

    if not 0.25 <= factor <= 4:
        raise ConfigError(f"the speed factor is {factor}", "choose a factor from 0.25 to 4")
    ratio = Fraction(factor).limit_denominator(100)
    if ratio == 1:
        return wave
    made = resample_poly(wave.numpy(), ratio.denominator, ratio.numerator, axis=-1)
    return torch.from_numpy(np.ascontiguousarray(made, dtype=np.float32))


@dataclass(frozen=True, kw_only=True)
class AudioAugmentation:
    """Augmentation of log-mel frames x with power P = 10^(4x − 4): gain is added to x, noise is added to P.

    `gain` is the maximum change in bels, in either direction. `noise` is the fraction of recordings with added noise,
    0 to 40 dB below the speech. `silence` is the maximum number of seconds added before and after. SpecAugment uses
    `bands` masks of up to `width` bands, and one mask of up to `longest` frames per 1.5 seconds.
    """

    gain: float = 1.0
    noise: float = 0.5
    silence: float = 0.4
    bands: int = 2
    width: int = 8
    longest: int = 12
    needs: ClassVar[dict[str, str]] = {"bands": "width", "width": "bands"}  # option → option it requires

    def __call__(self, frames: Tensor, mel: MelConfig, random: torch.Generator) -> Tensor:
        draw = lambda: float(torch.rand((), generator=random))
        quiet = silence(mel)
        most = int(self.silence * mel.rate / mel.hop)
        frames = pad(frames, (0, 0, int(most * draw()), int(most * draw())), value=quiet)
        if draw() < self.noise:
            frames = noisy(frames, mel, below=4 * draw(), tilt=draw() - 0.5, random=random)
        frames = (frames + self.gain * (2 * draw() - 1) / 4).clamp_min(quiet)
        spans = 1 + len(frames) // 150
        return spec_augment(
            frames, random, bands=self.bands, width=self.width, spans=spans, longest=self.longest, share=0.1
        )


def silence(mel: MelConfig) -> float:
    """The log-mel value of digital silence."""
    return (math.log10(mel.floor) + 4) / 4


def noisy(frames: Tensor, mel: MelConfig, *, below: float, tilt: float, random: torch.Generator) -> Tensor:
    """log(P + N): add noise whose mean power is `below` bels under that of the frames, with a spectral tilt."""
    hiss = white(mel)
    first = int(torch.randint(len(hiss), (), generator=random))
    N = hiss.roll(-first, 0)[torch.arange(len(frames)) % len(hiss)]
    N = N * 10 ** torch.linspace(tilt, -tilt, mel.bands)
    P = 10 ** (4 * frames - 4)
    return ((P + N * (P.mean() / N.mean()) * 10**-below).log10() + 4) / 4


@lru_cache(maxsize=4)
def white(mel: MelConfig) -> Tensor:
    """Mel power (t, bands) of 20 s of white noise."""
    wave = torch.randn(20 * mel.rate, generator=torch.Generator().manual_seed(0))
    return (10 ** (4 * log_mel(wave, mel) - 4)).float()
