from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, log_mel
from glassformer.data.recordings import Recordings
from glassformer.data.sources import fetch
from glassformer.models import Speech
from glassformer.pipelines.loading import load
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.pipelines.transcribe import transcribe, transcribe_stream
from glassformer.train.objectives import speech_models

ROW = 0.04
RECOGNIZER = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)


@pytest.fixture(scope="module")
def talker() -> Speech:
    """A random network whose letters change often: nearly every row says something else."""
    model = Speech(speech_models.transformer(RECOGNIZER, width=16, depth=1, count=2), seed=5).eval()
    frames = log_mel(torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10, RECOGNIZER.mel)
    return speech_models.normalise_stem(model, frames[None].float())


@pytest.mark.parametrize("rate", [8_000, pytest.param(16_000, marks=pytest.mark.slow)])
def test_live_equals_offline_transcription(talker: Speech, rate: int) -> None:
    wave = torch.randn(rate, generator=torch.Generator().manual_seed(7)) / 10
    wave[rate // 4 : rate // 2] = 0
    whole = list(transcribe_stream(talker, [wave], rate=rate, pause=ROW, recognizer=RECOGNIZER))
    assert len(whole) > 1
    assert all(0 <= word.start < word.end <= word.known <= 1.001 for word in whole)

    @settings(max_examples=8)
    @given(st.lists(st.integers(0, rate), max_size=5))
    def same(cuts: list[int]) -> None:
        pieces = wave.tensor_split(sorted(cuts))
        assert list(transcribe_stream(talker, pieces, rate=rate, pause=ROW, recognizer=RECOGNIZER)) == whole

    same()


def test_words_come_before_the_sound_ends(talker: Speech) -> None:
    """The first word is given while pieces are still being asked for."""
    asked = 0

    def pieces() -> Any:
        nonlocal asked
        for piece in torch.randn(3 * 16_000, generator=torch.Generator().manual_seed(1)).split(800):
            asked += 1
            yield piece / 10

    word = next(iter(transcribe_stream(talker, pieces(), recognizer=RECOGNIZER)))
    assert asked == -(-round(word.known * 16_000) // 800) < 60


def test_nothing(talker: Speech) -> None:
    assert list(transcribe_stream(talker, [], recognizer=RECOGNIZER)) == []


@pytest.mark.slow
def test_a_file_with_times_and_without() -> None:
    """Without, all of it is one segment."""
    wave = pad(torch.cat([held_out().wave(i) for i in (0, 1)]), (0, 16_000))
    model = load("listener")
    timed, plain = transcribe(model, wave), transcribe(model, wave, timestamps=False)
    assert plain.segments == ((0.0, round(len(wave) / 16_000, 2), timed.text),)
    assert timed.segments[-1].end < plain.segments[0].end
    assert transcribe(model, torch.zeros(16_000), timestamps=False).segments == ()


def held_out() -> Recordings:
    """The real recordings that the shipped listener was not trained on."""
    return Recordings.open(fetch("asterisk-en") / "test.tsv", longest=120)


@pytest.mark.slow
def test_the_shipped_listener_transcribes_the_same_live_and_offline() -> None:
    """Every third held-out recording, cut into pieces of an odd length, at its own 8 kHz too."""
    from glassformer.data.audio import read_sound

    model, recordings = load("listener"), held_out()
    for i in range(0, len(recordings), 3):
        text = transcribe(model, recordings.wave(i)).text
        assert " ".join(word.text for word in transcribe_stream(model, recordings.wave(i).split(1111))) == text
        own = read_sound(recordings.file(i), 8000)
        assert " ".join(word.text for word in transcribe_stream(model, own.split(333), rate=8000)) == text
