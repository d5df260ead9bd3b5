from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from glassformer.cli.main import build
from glassformer.cli.transcribe import _clock, _shown
from glassformer.core.audio import MelConfig, log_mel
from glassformer.errors import InputError
from glassformer.models import Speech
from glassformer.pipelines import Segment, Transcript
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import save_speech

GLASSFORMER = [sys.executable, "-c", "from glassformer.cli.main import main; main()"]
FOUND = Transcript((Segment(0.0, 1.5, "Hello."), Segment(3661.25, 3662.0, "Bye.")))
SOUND = (np.random.default_rng(0).normal(size=16_000) * 3000).astype("<i2")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random recogniser that says something else nearly every 40 ms."""
    recognizer = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)
    model = Speech(speech_models.transformer(recognizer, width=16, depth=1, count=2), seed=5).eval()
    frames = log_mel(torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10, recognizer.mel)
    speech_models.normalise_stem(model, frames[None].float())
    return save_speech(model, tmp_path_factory.mktemp("listener"), recognizer)


def test_forms() -> None:
    assert _shown(Path("a.wav"), FOUND, "plain") == "Hello. Bye."
    assert _shown(Path("a.wav"), FOUND, "text").splitlines()[1] == "3661.25 – 3662.00  Bye."
    srt = _shown(Path("a.wav"), FOUND, "srt")
    assert srt.startswith("1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n2\n01:01:01,250 --> 01:01:02,000\nBye.\n")
    loaded = json.loads(_shown(Path("a.wav"), FOUND, "json"))
    assert loaded["file"] == "a.wav"
    assert loaded["segments"][0] == {"start": 0.0, "end": 1.5, "text": "Hello."}


def test_a_clock_carries() -> None:
    assert _clock(59.9999) == "00:01:00,000"


def test_a_file_and_the_same_sound_live(listener: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", SOUND, 16_000, subtype="PCM_16")
    plain = ["-m", str(listener), "-f", "plain"]
    told = CliRunner().invoke(build(), ["transcribe", str(tmp_path / "a.wav"), *plain], catch_exceptions=False)
    live = CliRunner().invoke(build(), ["transcribe", "--live", *plain], input=SOUND.tobytes(), catch_exceptions=False)
    assert len(told.stdout) > 5
    assert live.stdout.split() == told.stdout.split()


@pytest.mark.slow
def test_control_c_ends_with_the_rest_and_zero(listener: Path) -> None:
    command = [*GLASSFORMER, "transcribe", "--live", "-m", str(listener), "-f", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(SOUND.tobytes())
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # a word while the sound goes on
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == b""
    assert first["known"] < 1
    assert json.loads(rest.splitlines()[-1])["known"] == pytest.approx(1.0)


def test_what_does_not_go_together(listener: Path) -> None:
    run = lambda *given: CliRunner().invoke(build(), ["transcribe", *given], catch_exceptions=False)
    assert "'doc' is not one of" in run("a.wav", "-f", "doc").output
    with pytest.raises(InputError, match="no recordings were given"):
        run()
    with pytest.raises(InputError, match="--live takes no files"):
        run("--live", "a.wav")
    with pytest.raises(InputError, match="--sample-rate 8000 needs --live: leave it out"):
        run("a.wav", "--sample-rate", "8000")
    with pytest.raises(InputError, match="--live always computes timestamps"):
        run("--live", "--no-timestamps")
    with pytest.raises(InputError, match="--format srt needs a whole recording"):
        run("--live", "-f", "srt", "-m", str(listener))


def test_another_model_is_told_for_each_file(writer: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["transcribe", "-m", str(writer), str(tmp_path / "a.wav")])
    assert result.exit_code == 2
    assert "this Decoder cannot transcribe speech" in result.stderr


def test_without_a_model_the_listener_says_that_it_is_a_demonstration(tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["transcribe", str(tmp_path / "missing.wav")])
    assert "the listener that comes with Glassformer is a small demonstration model" in result.stderr
    assert "glassformer data fetch whisper-tiny.en" in result.stderr
