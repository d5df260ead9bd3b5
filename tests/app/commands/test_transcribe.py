from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.app.cli import build
from glassformer.app.commands.transcribe import _clock, _shown
from glassformer.errors import InputError
from glassformer.tasks import Segment, Transcribed

FOUND = Transcribed((Segment(0.0, 1.5, "Hello."), Segment(3661.25, 3662.0, "Bye.")))


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


def test_a_form_that_is_not_known(writer: Path) -> None:
    with pytest.raises(InputError, match="there is no format 'doc'"):
        CliRunner().invoke(build(), ["transcribe", str(writer), "a.wav", "-f", "doc"], catch_exceptions=False)


def test_another_model_is_told_for_each_file(writer: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["transcribe", str(writer), str(tmp_path / "a.wav")])
    assert result.exit_code == 2
    assert "a Decoder does not transcribe" in result.stderr
