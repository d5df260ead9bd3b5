"""Frames as the same words might also have sounded: louder, with noise and silence around, with parts unheard.

All of it works on log-mel frames x, whose powers are P = 10^(4x − 4) (`core.audio`): a gain adds to x, and the powers
of speech and noise add. So a recording's frames are made once, and changed anew each time they are heard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, log_mel
from glassformer.tasks.data.augment_audio import spec_augment

SPEEDS = (0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.12)


@dataclass(frozen=True, kw_only=True)
class Changed:
    """`gain`: up to so many bels louder or quieter. `noise`: the part of recordings that get some, 0 to 40 dB below
    the speech, its spectrum tilted either way. `silence`: up to so many seconds before and after. `bands` stripes of
    up to `width` bands, and one of up to `longest` frames for each second and a half, are unheard (SpecAugment).
    """

    gain: float = 1.0
    noise: float = 0.5
    silence: float = 0.4
    bands: int = 2
    width: int = 8
    longest: int = 12
    needs: ClassVar[dict[str, str]] = {"bands": "width", "width": "bands"}  # without which it does nothing

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
    """What a band of a frame without any sound is."""
    return (math.log10(mel.floor) + 4) / 4


def noisy(frames: Tensor, mel: MelConfig, *, below: float, tilt: float, random: torch.Generator) -> Tensor:
    """log(P + N): noise whose mean power is `below` bels under that of the frames, falling or rising over the bands."""
    hiss = white(mel)
    first = int(torch.randint(len(hiss), (), generator=random))
    N = hiss.roll(-first, 0)[torch.arange(len(frames)) % len(hiss)]
    N = N * 10 ** torch.linspace(tilt, -tilt, mel.bands)
    P = 10 ** (4 * frames - 4)
    return ((P + N * (P.mean() / N.mean()) * 10**-below).log10() + 4) / 4


@lru_cache(maxsize=4)
def white(mel: MelConfig) -> Tensor:
    """Powers (t, bands) of 20 s of white noise."""
    wave = torch.randn(20 * mel.rate, generator=torch.Generator().manual_seed(0))
    return (10 ** (4 * log_mel(wave, mel) - 4)).float()
