from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, ShapeError
from glassformer.tasks.data.augment_audio import faster, spec_augment, speed


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
    made = faster(torch.sin(2 * torch.pi * 440 * seconds), factor)
    assert abs(len(made) - 16_000 / factor) <= 1
    assert made.dtype == torch.float32
    expected = torch.sin(2 * torch.pi * 440 * factor * torch.arange(len(made)) / 16_000)
    torch.testing.assert_close(made[1000:-1000], expected[1000:-1000], atol=5e-3, rtol=0)


def test_speeds_are_drawn() -> None:
    wave = torch.rand(990)
    lengths = [len(speed(wave, random(seed))) for seed in range(60)]
    assert set(lengths) == {900, 990, 1100}
    assert lengths == [len(speed(wave, random(seed))) for seed in range(60)]
    assert faster(wave, 1.0) is wave


def test_what_is_refused(refused: Any) -> None:
    refused(ShapeError, "frames of shape (5,): give", lambda: spec_augment(torch.zeros(5), random()))
    text = "2 masks of up to 27 bands, 2 of up to 100 frames, share 2: take"
    refused(ConfigError, text, lambda: spec_augment(torch.zeros(5, 5), random(), share=2))
    refused(ConfigError, "speed 0: take", lambda: faster(torch.zeros(5), 0))
    refused(ConfigError, "no factors of speed: give", lambda: speed(torch.zeros(5), random(), factors=()))
