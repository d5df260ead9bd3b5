from __future__ import annotations

from pathlib import Path

import pytest
import soundfile
import torch
from latency import Told, over, summary, told

from glassformer.core.audio import MelConfig
from glassformer.data.recordings import Recordings
from glassformer.models import Recurrent
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.pipelines.speech.words import Word
from glassformer.train.objectives import speech_models

RECOGNIZER = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)


def test_when_speaking_is_over() -> None:
    tone = 0.5 * torch.sin(2 * torch.pi * 300 * torch.arange(8000) / 16000)
    faint = 0.002 * torch.randn(8000, generator=torch.Generator().manual_seed(0))  # 45 dB below
    assert over(torch.cat([tone, faint])) == pytest.approx(0.5)
    assert over(tone[:4100]) == pytest.approx(0.26)


def test_a_summary_by_hand() -> None:
    heard = [
        Told("the cat", (Word("the", 0.1, 0.3, 0.5), Word("hat", 0.4, 0.6, 0.9)), 1.0, 0.1, 0.7),
        Told("yes", (Word("yes", 0.1, 0.4, 0.7),), 1.0, 0.1, 0.3),
        Told("no", (), 1.0, 0.1, 0.3),
    ]
    found = summary(heard)
    assert found["wer"] == pytest.approx(2 / 4)
    assert found["words"] == 4
    assert found["latency_after_sound_median"] == pytest.approx(0.3)
    assert found["latency_of_single_words_median"] == pytest.approx(0.4)
    assert found["latency_after_last_letter_median"] == pytest.approx(0.3)
    assert found["latency_of_first_words_median"] == pytest.approx(0.25)  # 0.2 and 0.3
    assert found["letter_before_sound_median"] == pytest.approx(-0.1)  # 0.1 and −0.1: the lower of two
    many = Told("stop", (Word("s", 0.1, 0.3, 0.5), Word("top", 0.4, 0.6, 0.9)), 1.0, 0.1, 0.4)
    assert summary([many])["latency_of_single_words_median"] == pytest.approx(0.1), "one was said, two were given"
    assert found["real_time_factor"] == pytest.approx(0.3 / 6)
    assert found["latency_after_sound_within_half_a_second"] == 1
    assert "latency_after_sound_median" not in summary([heard[2]])


def test_every_recording_that_can_be_used(tmp_path: Path) -> None:
    wave = torch.randn(9000, generator=torch.Generator().manual_seed(0)) / 10
    soundfile.write(tmp_path / "a.wav", wave.numpy(), 16_000)
    soundfile.write(tmp_path / "b.wav", 0 * wave.numpy(), 16_000)  # silent
    (tmp_path / "t.tsv").write_text("path\tsentence\na.wav\tPress 1.\nb.wav\tnothing\n")
    model = Recurrent(speech_models.gru(RECOGNIZER, width=8, layers=1), seed=1).eval()
    (one,) = told(model, Recordings.open(tmp_path / "t.tsv"), RECOGNIZER)
    assert one.meant == "press one"
    assert one.seconds == pytest.approx(9000 / 16000)
    assert 0.5 < one.over <= 0.58
    assert one.spent > 0
