from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.audio import (
    AT_ONCE,
    MelConfig,
    hertz_of,
    log_mel,
    log_mel_start,
    log_mel_step,
    mel_filters,
    mel_of,
    mel_powers,
    whisper_log_mel,
)
from glassformer.errors import ConfigError, GlassError, InputError, ShapeError

SMALL = MelConfig(rate=1000, window=40, hop=16, bands=6, high=500.0)
ROUNDING = 3e-7  # of the last step to float32: equal to the bit but where float64 sums fall on its border


def sound(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """A loud tone over quiet noise: bands of very different power, where rounding would show."""
    n = shape[-1]
    tone = torch.sin(2 * math.pi * 440 * torch.arange(n, dtype=torch.float64) / 16000)
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (0.5 * tone + 1e-3 * noise).to(dtype)


def test_equals_the_published_features_of_whisper() -> None:
    """Hugging Face's extractor, at 80 bands and at 128, and its mel filters."""
    from transformers import WhisperFeatureExtractor
    from transformers.audio_utils import mel_filter_bank

    for bands in (80, 128):
        theirs = WhisperFeatureExtractor(feature_size=bands)
        mel = MelConfig(bands=bands)
        filters = torch.from_numpy(theirs.mel_filters).T.double()
        torch.testing.assert_close(mel_filters(mel), filters, atol=1e-12, rtol=1e-9)
        for wave in (sound(7001), sound(16000, seed=1)):
            there = theirs(wave.numpy(), sampling_rate=16000, return_tensors="pt", padding=False).input_features
            torch.testing.assert_close(whisper_log_mel(wave, mel).mT, there[0], atol=1e-4, rtol=0)
        both = torch.stack([sound(8000), 0.01 * sound(8000, seed=1)])
        there = theirs(list(both.numpy()), sampling_rate=16000, return_tensors="pt", padding=False).input_features
        torch.testing.assert_close(whisper_log_mel(both, mel).mT, there, atol=1e-4, rtol=0)
        padded = theirs(sound(7001).numpy(), sampling_rate=16000, return_tensors="pt").input_features[0]
        zeros = torch.nn.functional.pad(sound(7001), (0, 480_000 - 7001))
        torch.testing.assert_close(whisper_log_mel(zeros, mel).mT, padded, atol=1e-4, rtol=0)
    lower = mel_filter_bank(201, 40, 60.0, 7600.0, 16000, norm="slaney", mel_scale="slaney")
    ours = mel_filters(MelConfig(bands=40, low=60.0, high=7600.0))
    torch.testing.assert_close(ours, torch.from_numpy(lower).T, atol=1e-12, rtol=1e-9)


def test_powers_are_those_of_torchs_stft() -> None:
    wave = sound(2, 4000, dtype=torch.float64)
    mel = MelConfig()
    window = torch.hann_window(400, dtype=torch.float64)
    spectrum = torch.stft(wave, 400, 160, window=window, center=False, return_complex=True).abs().square()
    torch.testing.assert_close(mel_powers(wave, mel), (mel_filters(mel) @ spectrum).mT)


def test_a_tone_is_loudest_in_its_own_band() -> None:
    mel = MelConfig()
    peaks = mel_filters(mel).argmax(1) * mel.rate / mel.window
    wave = torch.sin(2 * math.pi * 2000 * torch.arange(16000) / 16000)
    loudest = log_mel(wave)[50].argmax()
    assert abs(float(peaks[loudest]) - 2000) < 100


@given(st.floats(0, 20000))
def test_the_mel_scale_goes_there_and_back(f: float) -> None:
    hertz = torch.tensor(f, dtype=torch.float64)
    torch.testing.assert_close(hertz_of(mel_of(hertz)), hertz, atol=1e-8, rtol=1e-10)


def test_the_mel_scale_at_its_corner() -> None:
    places = torch.tensor([0.0, 200.0, 1000.0, 6400.0], dtype=torch.float64)
    torch.testing.assert_close(mel_of(places), torch.tensor([0.0, 3.0, 15.0, 42.0], dtype=torch.float64))


@given(st.lists(st.integers(0, 70), min_size=1, max_size=12), st.sampled_from([SMALL, MelConfig(hop=400), MelConfig()]))
def test_pieces_give_the_frames_of_the_whole(sizes: list[int], mel: MelConfig) -> None:
    sizes = [1, *(size * mel.hop // 16 for size in sizes)]
    wave = sound(sum(sizes))
    kept, frames = log_mel_start(mel).float(), []
    for piece in wave.split(sizes):
        out, kept = log_mel_step(piece, kept, mel)
        frames.append(out)
        assert len(kept) < mel.window
    frames.append(log_mel_step(wave[:0], kept, mel, end=True).frames)
    whole = log_mel(wave, mel, rate=mel.rate)
    torch.testing.assert_close(torch.cat(frames), whole, atol=ROUNDING, rtol=0)
    assert len(whole) == math.ceil(len(wave) / mel.hop)


def test_sample_by_sample() -> None:
    wave, kept, frames = sound(2, 100), log_mel_start(SMALL, 2).float(), []
    for i in range(100):
        out, kept = log_mel_step(wave[:, i : i + 1], kept, SMALL)
        assert out.shape[1] == ((i + 1) % SMALL.hop == 0), "a frame is known with its last sample"
        frames.append(out)
    frames.append(log_mel_step(wave[:, :0], kept, SMALL, end=True).frames)
    torch.testing.assert_close(torch.cat(frames, 1), log_mel(wave, SMALL, rate=1000), atol=ROUNDING, rtol=0)


@given(st.integers(0, 119))
def test_frames_are_causal(i: int) -> None:
    wave = sound(120, dtype=torch.float64)
    changed = wave.clone()
    changed[i:] += 0.3  # the window is 0 at its first sample only: whoever hears it shows it
    here, there = (log_mel(x, SMALL, rate=1000) for x in (wave, changed))
    known = i // SMALL.hop
    assert torch.equal(here[:known], there[:known])
    assert not torch.equal(here[known], there[known])


def test_the_last_sample_affects_the_last_frame() -> None:
    wave = torch.zeros(1000)
    wave[-8:] = 1.0
    assert log_mel(wave)[-1].amax() > log_mel(torch.zeros(1000))[-1].amax() + 0.1


def test_long_sound_is_transformed_in_parts() -> None:
    wave = sound(SMALL.hop * (AT_ONCE + 3), dtype=torch.float64)
    whole = log_mel(wave, SMALL, rate=1000)
    tail = log_mel(wave[SMALL.hop * (AT_ONCE - 5) :], SMALL, rate=1000)
    torch.testing.assert_close(whole[-5:], tail[-5:])


def test_silence_is_the_floor_and_gradients_flow() -> None:
    assert torch.equal(log_mel(torch.zeros(500)), torch.full((4, 80), -1.5))
    wave = sound(200, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_mel(x, SMALL, rate=1000), wave)


def test_filters_made_for_inference_serve_training() -> None:
    mel = MelConfig(bands=11)
    with torch.inference_mode():
        log_mel(sound(500), mel)
    wave = sound(500).requires_grad_()
    log_mel(wave, mel).sum().backward()
    assert wave.grad is not None


@pytest.mark.parametrize("features", [log_mel, whisper_log_mel])
@pytest.mark.parametrize(
    ("wave", "rate", "kind", "says"),
    [
        (torch.zeros(1600, 2), 16000, ShapeError, r"\(1600, 2\), which looks like several channels"),
        (torch.zeros(1, 2, 1600), 16000, ShapeError, "several channels"),
        (torch.zeros(1600), 44100, InputError, "44100 samples per second.* 16000: resample"),
        (torch.zeros(0), 16000, InputError, "empty"),
        (torch.zeros(2, 0), 16000, InputError, "empty"),
        (torch.tensor([0.0, math.nan] * 400), 16000, InputError, "sample 1 is nan"),
        (torch.tensor([[0.0] * 500, [math.inf] * 500]), 16000, InputError, "sample 0 of recording 1 is inf"),
        (torch.zeros(1600, dtype=torch.int16), 16000, InputError, "int16: .*32768"),
    ],
)
def test_bad_sound_is_an_error(features, wave: Tensor, rate: int, kind: type[GlassError], says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=says):
        features(wave, rate=rate)


def test_too_short_to_reflect_is_an_error() -> None:
    with pytest.raises(InputError, match="200 samples is too short"):
        whisper_log_mel(torch.zeros(200))
    assert whisper_log_mel(torch.zeros(201)).shape == (1, 80)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hop": 401}, "leave gaps"),
        ({"hop": 0}, "leave gaps"),
        ({"high": 9000.0}, "do not fit a sampling rate of 16000"),
        ({"low": 8000.0}, "do not fit"),
        ({"bands": 0}, "bands is 0"),
        ({"floor": 0.0}, "floor"),
    ],
)
def test_invalid_configs_are_errors(changes: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        MelConfig(**changes)


def test_a_band_without_a_frequency_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"mel band \d+ of 300"):
        mel_filters(MelConfig(bands=300))
