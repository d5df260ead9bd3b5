from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.checkpoints import load_folder, save
from glassformer.core.audio import MelConfig
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.models import Speech, speech
from glassformer.pipelines.speech.charset import (
    FILE,
    LETTERS,
    Charset,
    RecognizerConfig,
    normalize_transcript,
    recognizer_config,
)


@given(st.text())
def test_what_is_spoken_can_be_written_with_words_alone(text: str) -> None:
    said = normalize_transcript(text)
    assert said == " ".join(said.split()) == said.lower()
    assert normalize_transcript(said) == said  # nothing is left to say otherwise
    if text.isascii():
        assert LETTERS.decode(LETTERS.encode(said)) == said


def test_numbers_and_signs_are_spelled_out() -> None:
    assert normalize_transcript("Press 1, then #; or 17 & 42!") == "press one then pound or seventeen and forty two"
    dial = "dial five hundred or one two three four or zero zero seven"
    assert normalize_transcript("dial 500 or 1234 or 007") == dial
    assert normalize_transcript("'It’s o'clock' -- re-enter *") == "it's o'clock re enter star"
    assert normalize_transcript("40 99 20") == "forty ninety nine twenty"
    assert normalize_transcript("…") == ""
    assert normalize_transcript("नमस्ते, दुनिया!") == "नमस्ते दुनिया", "vowel signs belong to their letters"


def test_an_invalid_letter_is_an_error(refused: Any) -> None:
    refused(InputError, "'é' in 'café' is not a symbol", lambda: LETTERS.encode("café"))
    refused(ConfigError, "the symbols are 'ab'", lambda: Charset(("a", "b")))  # no space: no word would end
    refused(ConfigError, "the symbols are 'aa '", lambda: Charset(("a", "a", " ")))


def test_the_recognizer_config_is_saved_and_loaded_with_its_model(tmp_path: Path, refused: Any) -> None:
    recognizer = RecognizerConfig(charset=Charset(tuple("ab '")), mel=MelConfig(bands=8, high=4000.0), stack=3)
    model = Speech(speech.tiny())
    refused(InputError, f"a Speech has no {FILE}", lambda: recognizer_config(model))
    save(model, tmp_path / "one")
    recognizer.save(tmp_path / "one")
    loaded = load_folder(tmp_path / "one")
    assert recognizer_config(loaded) == recognizer
    assert recognizer_config(load_folder(save(loaded, tmp_path / "two"))) == recognizer  # it goes along
    (tmp_path / "one" / FILE).write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        recognizer_config(loaded)
