"""E = (log₁₀ max(W |F(w ⊙ x)|², floor) + 4) / 4: log-mel frames of audio, 25 ms windows every 10 ms.

F is the Fourier transform of one windowed frame, W the mel filters. The transform runs in float64 because the log
magnifies rounding errors in a quiet band next to a loud one, and streaming must match the whole recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn.functional import pad

from glassformer.errors import ConfigError, InputError, ShapeError

RATE = 16_000
AT_ONCE = 4096  # frames per FFT batch; bounds memory for long recordings


@dataclass(frozen=True, kw_only=True)
class MelConfig:
    """Configuration of log-mel frames: `window` samples every `hop`, in `bands` mel bands from `low` to `high` Hz.

    Powers below `floor` are clamped to it.
    """

    rate: int = RATE
    window: int = 400
    hop: int = 160
    bands: int = 80
    low: float = 0.0
    high: float = 8000.0
    floor: float = 1e-10

    def __post_init__(self) -> None:
        if not 1 <= self.hop <= self.window:
            fact = f"windows of {self.window} samples every {self.hop} samples leave gaps"
            raise ConfigError(fact, "choose a hop from 1 up to the window")
        if not 0 <= self.low < self.high <= self.rate / 2:
            fact = f"bands from {self.low} to {self.high} Hz do not fit a sampling rate of {self.rate} Hz"
            raise ConfigError(fact, f"stay within 0 to {self.rate / 2:g} Hz")
        if self.bands < 1 or not self.floor > 0:
            fact = f"bands is {self.bands} and floor is {self.floor}"
            raise ConfigError(fact, "choose at least 1 band and a floor above 0")

    @property
    def overlap(self) -> int:
        """Number of samples that consecutive frames share."""
        return self.window - self.hop


MEL = MelConfig()


# ---- filters ---------------------------------------------------------------------------------------------------------


def mel_of(hertz: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """3 f / 200 below 1000 Hz, 15 + 27 ln(f / 1000) / ln 6.4 above: Slaney's mel scale (1998), as in librosa."""
    above = 15 + 27 * torch.log(hertz.clamp_min(1000) / 1000) / math.log(6.4)
    return torch.where(hertz < 1000, 3 * hertz / 200, above)


def hertz_of(mel: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """Convert mel to Hz; the inverse of `mel_of`."""
    return torch.where(mel < 15, 200 * mel / 3, 1000 * torch.exp((mel - 15) * math.log(6.4) / 27))


@lru_cache(maxsize=32)
def mel_filters(mel: MelConfig) -> Float[Tensor, "bands bins"]:
    """Return triangular filters evenly spaced on the mel scale, each of area 1 in Hz (Slaney), in float64."""
    with torch.inference_mode(False):  # cached, so the filters must be usable in training as well
        ends = mel_of(torch.tensor([mel.low, mel.high], dtype=torch.float64))
        corners = hertz_of(torch.linspace(float(ends[0]), float(ends[1]), mel.bands + 2, dtype=torch.float64))
        bins = torch.arange(mel.window // 2 + 1, dtype=torch.float64) * mel.rate / mel.window
        from_corner = bins - corners[:, None]
        rise = from_corner[:-2] / corners.diff()[:-1, None]
        fall = -from_corner[2:] / corners.diff()[1:, None]
        W = torch.minimum(rise, fall).clamp_min(0) * (2 / (corners[2:] - corners[:-2]))[:, None]
    deaf = (W.sum(1) == 0).nonzero().flatten().tolist()
    if deaf:
        fact = f"mel band {deaf[0]} of {mel.bands} contains no frequency of a window of {mel.window} samples"
        raise ConfigError(fact, "choose fewer bands, or a longer window")
    return W


@lru_cache(maxsize=32)
def _hann(size: int) -> Tensor:
    return torch.hann_window(size, periodic=True, dtype=torch.float64)


def mel_powers(wave: Num[Tensor, "*b n"], mel: MelConfig) -> Float[Tensor, "*b t bands"]:
    """P = W |F(w ⊙ x)|² for each complete window of the wave, with a periodic Hann window w; float64."""
    w, W = _hann(mel.window).to(wave.device), mel_filters(mel).to(wave.device)
    frames = wave.unfold(-1, mel.window, mel.hop)
    parts = frames.split(AT_ONCE, -2)
    return torch.cat([torch.fft.rfft(part.double() * w).abs().square() @ W.T for part in parts], -2)


# ---- causal ----------------------------------------------------------------------------------------------------------


def log_mel(
    wave: Num[Tensor, "*b n"], mel: MelConfig = MEL, *, rate: int = RATE
) -> Float[Tensor, "*b t bands"]:
    """Frame i covers samples (i+1)·hop − window … (i+1)·hop − 1, so it depends on no later sample: t = ⌈n / hop⌉.

    The wave is zero-padded before the first sample and up to the end of the last frame, so no sample is lost. No frame
    depends on the whole recording, so `log_mel_step` returns the same frames from pieces of any length. The input is
    (n,) for one recording and (b, n) for a batch.
    """
    wave = require_wave(wave, mel, rate)
    frames, _ = log_mel_step(wave, log_mel_start(mel, *wave.shape[:-1]).to(wave), mel, end=True)
    return frames


class MelChunk(NamedTuple):
    """The frames completed by a step, and the samples that later frames still need."""

    frames: Float[Tensor, "*b t bands"]
    buffered: Float[Tensor, "*b k"]


def log_mel_start(mel: MelConfig, *batch: int) -> Float[Tensor, "*b overlap"]:
    """Return the initial state of `log_mel_step`: zeros."""
    return torch.zeros(*batch, mel.overlap, dtype=torch.float64)


def log_mel_step(
    wave: Float[Tensor, "*b n"], buffered: Float[Tensor, "*b k"], mel: MelConfig = MEL, *, end: bool = False
) -> MelChunk:
    """Streaming version of `log_mel`; with `end`, the last partial frame is zero-padded and returned."""
    wave = torch.cat([buffered, wave], -1)
    partial = (wave.shape[-1] - mel.overlap) % mel.hop
    if end and partial:
        wave = pad(wave, (0, mel.hop - partial))
    t = (wave.shape[-1] - mel.overlap) // mel.hop
    if not t:
        return MelChunk(wave.new_zeros(*wave.shape[:-1], 0, mel.bands), wave)
    frames = _scaled(mel_powers(wave, mel).clamp_min(mel.floor).log10())
    return MelChunk(frames.to(wave.dtype), wave[..., t * mel.hop :])


def _scaled(log: Tensor) -> Tensor:
    """Scale log powers from about −10 … 3 to about −1.5 … 1.75."""
    return (log + 4) / 4


# ---- Whisper ---------------------------------------------------------------------------------------------------------


def whisper_log_mel(
    wave: Num[Tensor, "*b n"], mel: MelConfig = MEL, *, rate: int = RATE
) -> Float[Tensor, "*b t bands"]:
    """Frame i is centred on sample i·hop, and values are clamped to 80 dB below the maximum: t = ⌊n / hop⌋.

    Radford et al., "Whisper", 2022. Both ends use reflection padding; Whisper itself first zero-pads every recording to
    30 s. Frames depend on later samples and on the maximum over the whole recording, so this cannot be streamed.
    """
    wave = require_wave(wave, mel, rate)
    half, n = mel.window // 2, wave.shape[-1]
    if n <= half or n < mel.hop:
        fact = f"a recording of {n} samples is too short for one frame"
        raise InputError(fact, f"pad it with zeros to {max(half + 1, mel.hop)} or more")
    whole = pad(wave.reshape(-1, n), (half, half), mode="reflect").reshape(*wave.shape[:-1], n + 2 * half)
    log = mel_powers(whole, mel)[..., : n // mel.hop, :].clamp_min(mel.floor).log10()
    return _scaled(torch.maximum(log, log.amax((-2, -1), keepdim=True) - 8)).to(wave.dtype)


# ---- checks ----------------------------------------------------------------------------------------------------------


def require_wave(
    wave: Num[Tensor, "*b n"], mel: MelConfig, rate: int, *, empty: bool = False
) -> Float[Tensor, "*b n"]:
    """Return the wave if it is mono, finite and has the sampling rate of `mel`; raise an error otherwise."""
    shape = tuple(wave.shape)
    if wave.dim() > 2 or (wave.dim() == 2 and 0 < shape[1] <= 8 and shape[1] < shape[0]):
        fact = f"the audio has shape {shape}, which looks like several channels"
        raise ShapeError(fact, "average the channels, and give (samples,) or (recordings, samples)")
    if rate != mel.rate:
        raise InputError(f"the audio has {rate} samples per second, but these features need {mel.rate}", "resample it")
    if not wave.dtype.is_floating_point:
        kind = str(wave.dtype).removeprefix("torch.")
        raise InputError(f"samples are {kind}", "give numbers from −1 to 1 (16-bit samples divided by 32768)")
    if not empty and not wave.numel():
        raise InputError(f"the audio is empty: its shape is {shape}", "give at least one sample")
    wrong = (~torch.isfinite(wave)).nonzero()
    if len(wrong):
        at = wrong[0].tolist()
        place = f"sample {at[-1]}" + (f" of recording {at[0]}" if len(at) > 1 else "")
        raise InputError(f"{place} is {float(wave[tuple(at)])}", "leave it out, or record again")
    return wave
