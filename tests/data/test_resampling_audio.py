from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.audio import Resampler, read_sound, resampled
from glassformer.errors import InputError, ShapeError


@pytest.mark.parametrize(("kind", "rate"), [("wav", 16000), ("flac", 16000), ("wav", 8000), ("flac", 44100)])
def test_a_tone_of_any_rate_and_channels(tmp_path: Path, kind: str, rate: int) -> None:
    seconds = np.arange(rate) / rate
    tone = 0.5 * np.sin(2 * np.pi * 440 * seconds)
    soundfile.write(tmp_path / f"a.{kind}", np.stack([tone, 0 * tone], 1), rate)
    wave = read_sound(tmp_path / f"a.{kind}")
    assert len(wave) == 16000
    expected = 0.25 * torch.sin(2 * torch.pi * 440 * torch.arange(16000) / 16000)
    torch.testing.assert_close(wave[500:-500], expected[500:-500].float(), atol=5e-3, rtol=0)


def test_the_same_rate_is_left_alone() -> None:
    wave = torch.randn(100)
    assert resampled(wave, 16000, 16000) is wave


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    refused(InputError, f"there is no file {tmp_path / 'x.wav'}", lambda: read_sound(tmp_path / "x.wav"))
    (tmp_path / "a.wav").write_text("no sound")
    refused(InputError, f"{tmp_path / 'a.wav'} cannot be read", lambda: read_sound(tmp_path / "a.wav"))
    soundfile.write(tmp_path / "e.wav", np.zeros(0), 16000)
    refused(InputError, f"{tmp_path / 'e.wav'} has 0 samples", lambda: read_sound(tmp_path / "e.wav"))


@pytest.mark.parametrize("given_rate", [8000, 11025, 16000, 22050, 48000])
def test_resampled_as_it_arrives(given_rate: int) -> None:
    """Bit for bit the numbers of the whole, for any cut."""

    @given(st.integers(1, 3000), st.lists(st.integers(0, 3000), max_size=6))
    def same(n: int, cuts: list[int]) -> None:
        wave = torch.randn(n, generator=torch.Generator().manual_seed(n))
        stream = Resampler(given_rate, 16000)
        pieces = [stream.feed(piece) for piece in wave.tensor_split(sorted(min(cut, n) for cut in cuts))]
        assert torch.equal(torch.cat([*pieces, stream.finish()]), resampled(wave, given_rate, 16000))

    same()


def test_a_stream_keeps_little() -> None:
    stream = Resampler(44100, 16000)
    for _ in range(50):
        stream.feed(torch.zeros(1000))
    assert len(stream._kept) < 4000


def test_what_cannot_be_resampled(refused: Any) -> None:
    refused(
        ShapeError, r"a stream received audio of shape (2, 5)", lambda: Resampler(8000, 16000).feed(torch.zeros(2, 5))
    )
    refused(InputError, "cannot resample from 0 Hz to 16000 Hz", lambda: Resampler(0, 16000))
