from __future__ import annotations

import torch

from glassformer.core.audio import MelConfig, log_mel
from glassformer.tasks.learn.unlike import Changed, noisy, white

MEL = MelConfig(bands=16, high=4000.0)
QUIET = -1.5  # frames of digital silence


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def powers(frames: torch.Tensor) -> torch.Tensor:
    return 10 ** (4 * frames - 4)


def test_noise_of_frames_is_that_of_waves() -> None:
    """Adding noise to the wave, and its power to the frames: the same mean power, in every band within a tenth."""
    tone = torch.sin(2 * torch.pi * 700 * torch.arange(32_000) / 16_000)
    clean = log_mel(tone, MEL).float()
    below = 1.0
    hiss = torch.randn(32_000, generator=seeded())
    ratio = powers(clean).mean() / powers(log_mel(hiss, MEL)).mean() * 10**-below
    by_wave = powers(log_mel(tone + ratio.sqrt() * hiss, MEL).float()).mean(0)
    by_frames = powers(noisy(clean, MEL, below=below, tilt=0.0, random=seeded())).mean(0)
    torch.testing.assert_close(by_frames, by_wave, rtol=0.12, atol=0.0)


def test_a_tilt_moves_noise_between_bands() -> None:
    silence = torch.full((50, 16), QUIET)
    falling = noisy(silence, MEL, below=0.0, tilt=0.5, random=seeded())
    rising = noisy(silence, MEL, below=0.0, tilt=-0.5, random=seeded())
    assert (falling[:, 0] > rising[:, 0]).all()
    assert (falling[:, -1] < rising[:, -1]).all()


def test_what_is_asked_for_and_no_more() -> None:
    frames = log_mel(torch.randn(16_000, generator=seeded(1)) / 10, MEL).float()
    none = Changed(gain=0, noise=0, silence=0, bands=0, longest=0)
    torch.testing.assert_close(none(frames, MEL, seeded()), frames)
    longer = Changed(gain=0, noise=0, silence=0.5, bands=0, longest=0)(frames, MEL, seeded())
    assert len(frames) < len(longer) <= len(frames) + 100
    start = next(i for i in range(100) if torch.equal(longer[i : i + len(frames)], frames))
    assert (longer[:start] == QUIET).all()
    louder = Changed(gain=1, noise=0, silence=0, bands=0, longest=0)(frames, MEL, seeded(2)) - frames
    assert 0 < float(louder.abs().max()) <= 0.25  # up to one bel: 4 to a unit
    assert float(louder.std()) < 1e-4
    hidden = Changed(gain=0, noise=0, silence=0)(frames, MEL, seeded(3)) != frames
    assert 0 < hidden.float().mean() < 0.9


def test_the_seed_alone_decides() -> None:
    frames = log_mel(torch.randn(8_000, generator=seeded(1)) / 10, MEL).float()
    one, same, other = (Changed()(frames, MEL, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, same)
    assert one.shape != other.shape or not torch.equal(one, other)
    assert white(MEL) is white(MEL)
