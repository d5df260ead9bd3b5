from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.audio import MelConfig, log_mel
from glassformer.data.augment_audio import AudioAugmentation, change_speed, noisy, spec_augment, speed, white
from glassformer.errors import ConfigError, ShapeError

MEL = MelConfig(bands=16, high=4000.0)
QUIET = -1.5  # frames of digital silence


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def runs(hidden: list[bool]) -> list[int]:
    return [len(list(part)) for one, part in itertools.groupby(hidden) if one]


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 2))
def test_masks_are_stripes_of_at_most_their_width(seed: int, bands: int, spans: int) -> None:
    frames = torch.randn(4, 60, 20, generator=random(1)) + 5
    lengths = torch.tensor([60, 41, 10, 1])
    made = spec_augment(frames, random(seed), lengths, bands=bands, width=6, spans=spans, longest=9, share=0.2)
    assert torch.equal(
        made, spec_augment(frames, random(seed), lengths, bands=bands, width=6, spans=spans, longest=9, share=0.2)
    )
    for x, y, n in zip(frames, made, lengths.tolist(), strict=True):
        assert torch.equal(x[n:], y[n:]), "padding is left alone"
        hidden = x[:n] != y[:n]
        torch.testing.assert_close(y[:n][hidden], x[:n].mean().expand(int(hidden.sum())))
        low, late = hidden.all(0), hidden.all(1)
        assert torch.equal(hidden, low[None, :] | late[:, None]), "whole bands and whole frames"
        assert int(low.sum()) <= 6 * bands
        if int(low.sum()) < 20:
            assert int(late.sum()) <= spans * min(9, int(0.2 * n))
            assert len(runs(late.tolist())) <= spans
        assert len(runs(low.tolist())) <= bands


def test_widths_are_uniform_and_every_place_is_hidden() -> None:
    frames = torch.rand(5000, 30, 16, generator=random()) + 1
    hidden = (frames != spec_augment(frames, random(2), bands=1, width=4, spans=0)).all(1)
    counts = torch.bincount(hidden.sum(1), minlength=5)
    assert len(counts) == 5
    assert bool((counts - 1000).abs().max() < 130)
    assert bool(hidden.any(0).all())


def test_one_recording_alone() -> None:
    frames = torch.rand(50, 80)
    assert torch.equal(spec_augment(frames, random(3)), spec_augment(frames[None], random(3))[0])
    assert torch.equal(spec_augment(frames, random(3), bands=0, spans=0), frames)


@pytest.mark.parametrize("factor", [0.9, 1.1, 0.5, 1.25])
def test_faster_is_shorter_and_higher(factor: float) -> None:
    seconds = torch.arange(16_000) / 16_000
    made = change_speed(torch.sin(2 * torch.pi * 440 * seconds), factor)
    assert abs(len(made) - 16_000 / factor) <= 1
    assert made.dtype == torch.float32
    expected = torch.sin(2 * torch.pi * 440 * factor * torch.arange(len(made)) / 16_000)
    torch.testing.assert_close(made[1000:-1000], expected[1000:-1000], atol=5e-3, rtol=0)


def test_speeds_are_drawn() -> None:
    wave = torch.rand(990)
    lengths = [len(speed(wave, random(seed))) for seed in range(60)]
    assert set(lengths) == {900, 990, 1100}
    assert lengths == [len(speed(wave, random(seed))) for seed in range(60)]
    assert change_speed(wave, 1.0) is wave


def test_what_is_refused(refused: Any) -> None:
    refused(ShapeError, "frames have shape (5,): give", lambda: spec_augment(torch.zeros(5), random()))
    text = "2 masks of up to 27 bands, 2 of up to 100 frames, share 2: choose"
    refused(ConfigError, text, lambda: spec_augment(torch.zeros(5, 5), random(), share=2))
    refused(ConfigError, "the speed factor is 0: choose", lambda: change_speed(torch.zeros(5), 0))
    refused(ConfigError, "no speed factors were given: give", lambda: speed(torch.zeros(5), random(), factors=()))


def powers(frames: torch.Tensor) -> torch.Tensor:
    return 10 ** (4 * frames - 4)


def test_noise_of_frames_is_that_of_waves() -> None:
    """Adding noise to the wave, and its power to the frames: the same mean power, in every band within a tenth."""
    tone = torch.sin(2 * torch.pi * 700 * torch.arange(32_000) / 16_000)
    clean = log_mel(tone, MEL).float()
    below = 1.0
    hiss = torch.randn(32_000, generator=random())
    ratio = powers(clean).mean() / powers(log_mel(hiss, MEL)).mean() * 10**-below
    by_wave = powers(log_mel(tone + ratio.sqrt() * hiss, MEL).float()).mean(0)
    by_frames = powers(noisy(clean, MEL, below=below, tilt=0.0, random=random())).mean(0)
    torch.testing.assert_close(by_frames, by_wave, rtol=0.12, atol=0.0)


def test_a_tilt_moves_noise_between_bands() -> None:
    silence = torch.full((50, 16), QUIET)
    falling = noisy(silence, MEL, below=0.0, tilt=0.5, random=random())
    rising = noisy(silence, MEL, below=0.0, tilt=-0.5, random=random())
    assert (falling[:, 0] > rising[:, 0]).all()
    assert (falling[:, -1] < rising[:, -1]).all()


def test_what_is_asked_for_and_no_more() -> None:
    frames = log_mel(torch.randn(16_000, generator=random(1)) / 10, MEL).float()
    none = AudioAugmentation(gain=0, noise=0, silence=0, bands=0, longest=0)
    torch.testing.assert_close(none(frames, MEL, random()), frames)
    longer = AudioAugmentation(gain=0, noise=0, silence=0.5, bands=0, longest=0)(frames, MEL, random())
    assert len(frames) < len(longer) <= len(frames) + 100
    start = next(i for i in range(100) if torch.equal(longer[i : i + len(frames)], frames))
    assert (longer[:start] == QUIET).all()
    louder = AudioAugmentation(gain=1, noise=0, silence=0, bands=0, longest=0)(frames, MEL, random(2)) - frames
    assert 0 < float(louder.abs().max()) <= 0.25  # up to one bel: 4 to a unit
    assert float(louder.std()) < 1e-4
    hidden = AudioAugmentation(gain=0, noise=0, silence=0)(frames, MEL, random(3)) != frames
    assert 0 < hidden.float().mean() < 0.9


def test_the_seed_alone_decides() -> None:
    frames = log_mel(torch.randn(8_000, generator=random(1)) / 10, MEL).float()
    one, same, other = (AudioAugmentation()(frames, MEL, random(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, same)
    assert one.shape != other.shape or not torch.equal(one, other)
    assert white(MEL) is white(MEL)
