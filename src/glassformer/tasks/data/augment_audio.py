"""E′ = E where no mask lies, its mean where one does; w′(t) = w(f t): sound as it might also have been."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, ShapeError


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
    """Of log-mel frames (b, t, m) or (t, m): `bands` stripes of 0 … width mel bands and `spans` stretches of 0 …
    longest frames are hidden under the recording's own mean; a stretch is at most `share` of the recording.

    Park et al., "SpecAugment", 2019, without its warping of time, which they find to matter least. `lengths`: frames
    of each recording before padding, which is left as it is.
    """
    if frames.dim() == 2:
        return spec_augment(
            frames[None], random, lengths, bands=bands, width=width, spans=spans, longest=longest, share=share
        )[0]
    if frames.dim() != 3:
        raise ShapeError(f"frames of shape {tuple(frames.shape)}", "give (recordings, frames, bands)")
    if not 0 <= share <= 1 or min(bands, width, spans, longest) < 0:
        fact = f"{bands} masks of up to {width} bands, {spans} of up to {longest} frames, share {share}"
        raise ConfigError(fact, "take sizes from 0, and a share from 0 to 1")
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
    """(b, n): True under `count` stripes each of 0 … most places, wholly within 0 … size."""
    u = torch.rand(2, len(sizes), count, generator=random)
    wide = (u[0] * (most[:, None] + 1)).long()
    start = (u[1] * (sizes[:, None] - wide + 1)).long()
    at = torch.arange(n)
    return ((at >= start[..., None]) & (at < (start + wide)[..., None])).any(1)


def speed(wave: Tensor, random: torch.Generator, *, factors: Sequence[float] = (0.9, 1.0, 1.1)) -> Tensor:
    """(n,) → (n / f,): faster and higher by one of the factors. Ko et al., "Audio Augmentation", 2015."""
    if not factors:
        raise ConfigError("no factors of speed", "give at least one, such as 1.0")
    return faster(wave, factors[int(torch.randint(len(factors), (1,), generator=random))])


def faster(wave: Tensor, factor: float) -> Tensor:
    """w′(t) = w(f t), resampled by a polyphase filter."""
    from scipy.signal import resample_poly

    if not 0.25 <= factor <= 4:
        raise ConfigError(f"speed {factor}", "take a factor from 0.25 to 4")
    ratio = Fraction(factor).limit_denominator(100)
    if ratio == 1:
        return wave
    made = resample_poly(wave.numpy(), ratio.denominator, ratio.numerator, axis=-1)
    return torch.from_numpy(np.ascontiguousarray(made, dtype=np.float32))
