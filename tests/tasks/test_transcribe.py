from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints import load
from glassformer.checkpoints.fetch import fetch
from glassformer.errors import InputError
from glassformer.models import Decoder, Whisper, decoder
from glassformer.tasks.hearing import Codes
from glassformer.tasks.sound import read_sound
from glassformer.tasks.transcribe import _begin, parted, transcribe

CODES = Codes(
    start=51, end=50, silent=99, never=(), not_first=(), latest_first=50, languages={}, tasks={}, nothing=None
)
MANY = Codes(
    start=51,
    end=50,
    silent=99,
    never=(),
    not_first=(),
    latest_first=50,
    languages={"en": 52, "fr": 53},
    tasks={"transcribe": 54, "translate": 55},
    nothing=None,
)


def times(*found: tuple[float, float, tuple[int, ...]]) -> list[Any]:
    return [(pytest.approx(start), pytest.approx(end), tokens) for start, end, tokens in found]


def test_pieces_between_times() -> None:
    at = lambda seconds: 100 + round(seconds / 0.02)
    one = (at(0), 1, 2, at(3))
    assert parted(one, CODES, 30.0) == (times((0, 3, one)), None)  # one piece; nothing after it
    open_ended = (at(0.5), 1, 2)
    assert parted(open_ended, CODES, 12.0) == (times((0.5, 12, open_ended)), None)
    first, second = (at(0), 1, at(2)), (at(2), 2, at(4))
    assert parted((*first, *second), CODES, 30.0) == (times((0, 2, first), (2, 4, second)), None)
    cut = (*first, at(2), 3)  # the window ends within a sentence: it is heard again
    assert parted(cut, CODES, 30.0) == (times((0, 2, first)), pytest.approx(2))
    assert parted((1, 2), CODES, 30.0) == (times((0, 30, (1, 2))), None)  # without times


def test_what_a_transcript_begins_with(refused: Any) -> None:
    assert _begin(CODES, None, "transcribe", True) == [51]
    assert _begin(CODES, "en", "transcribe", False) == [51, 99]
    assert _begin(MANY, "fr", "translate", True) == [51, 53, 55]
    refused(InputError, "the model transcribes English, not 'fr'", lambda: _begin(CODES, "fr", "transcribe", True))
    refused(InputError, "the model does not know the language 'xx'", lambda: _begin(MANY, "xx", "transcribe", True))


def test_what_is_refused(refused: Any) -> None:
    model = Decoder(decoder.tiny())
    refused(InputError, "a Decoder does not transcribe", lambda: transcribe(model, torch.zeros(100)))


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z ]", "", text.lower().replace("-", " ").replace("mr.", "mister")).split()


def errors(ours: list[str], theirs: list[str]) -> int:
    """Words to change, add or leave out."""
    row = list(range(len(theirs) + 1))
    for i, a in enumerate(ours, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(theirs, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def clips() -> list[tuple[Path, str]]:
    folder = fetch("librivox")
    lines = (folder / "transcription").read_text().splitlines()
    found = [re.fullmatch(r"<s> (.*) </s> \((.*)\)", line) for line in lines]
    return [(folder / f"{one[2]}.wav", one[1]) for one in found if one]


@pytest.mark.slow
def test_five_clips_with_at_most_two_errors_in_each() -> None:
    model = load(fetch("whisper-tiny.en"))
    for path, text in clips():
        found = transcribe(model, path)
        assert errors(words(found.text), words(text)) <= 2, found.text
        seconds = len(read_sound(path)) / 16000
        assert all(0 <= one.start < one.end <= seconds + 0.01 for one in found.segments)


@pytest.mark.slow
def test_the_tokens_of_hugging_face() -> None:
    import transformers

    from glassformer.core.audio import whisper_log_mel

    folder = fetch("whisper-tiny.en")
    model = load(folder)
    assert isinstance(model, Whisper)
    peer = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    for path, _ in clips():
        wave = read_sound(path)
        frames = whisper_log_mel(torch.nn.functional.pad(wave, (0, 480000 - len(wave))))
        said = peer.generate(frames.T[None], return_timestamps=True, do_sample=False, max_new_tokens=200)[0].tolist()
        from glassformer.tasks.tokenize import words_of

        theirs = words_of(model).decode([token for token in said if token < 50256])
        assert transcribe(model, wave).text == theirs.strip()


@pytest.mark.slow
def test_a_long_recording_in_windows() -> None:
    """The clips one after the other, twice: more than one window, and still nearly every word in its place."""
    model = load(fetch("whisper-tiny.en"))
    pause = torch.zeros(8000)
    parts = [part for path, _ in [*clips(), *clips()] for part in (read_sound(path), pause)]
    found = transcribe(model, torch.cat(parts))
    expected = words(" ".join(text for _, text in [*clips(), *clips()]))
    assert found.segments[-1].end > 40
    assert all(a.end <= b.start + 0.5 for a, b in zip(found.segments, found.segments[1:], strict=False))
    assert errors(words(found.text), expected) <= 0.15 * len(expected), found.text
