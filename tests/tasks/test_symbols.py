from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.checkpoints import load, save
from glassformer.core.audio import MelConfig
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.models import Speech, speech
from glassformer.tasks.symbols import FILE, LETTERS, Hearing, Symbols, hearing_of, spoken


@given(st.text())
def test_what_is_spoken_can_be_written_with_words_alone(text: str) -> None:
    said = spoken(text)
    assert said == " ".join(said.split()) == said.lower()
    assert spoken(said) == said  # nothing is left to say otherwise
    if text.isascii():
        assert LETTERS.decode(LETTERS.encode(said)) == said


def test_numbers_and_signs_as_they_are_said() -> None:
    assert spoken("Press 1, then #; or 17 & 42!") == "press one then pound or seventeen and forty two"
    assert spoken("dial 500 or 1234 or 007") == "dial five hundred or one two three four or zero zero seven"
    assert spoken("'It’s o'clock' -- re-enter *") == "it's o'clock re enter star"
    assert spoken("40 99 20") == "forty ninety nine twenty"
    assert spoken("…") == ""


def test_a_letter_that_is_none(refused: Any) -> None:
    refused(InputError, "'é' in 'café' is no symbol", lambda: LETTERS.encode("café"))
    refused(ConfigError, "symbols 'ab'", lambda: Symbols(("a", "b")))  # no space: no word would end
    refused(ConfigError, "symbols 'aa '", lambda: Symbols(("a", "a", " ")))


def test_a_hearing_comes_back_with_its_model(tmp_path: Path, refused: Any) -> None:
    hearing = Hearing(symbols=Symbols(tuple("ab '")), mel=MelConfig(bands=8, high=4000.0), stack=3)
    model = Speech(speech.tiny())
    refused(InputError, f"a Speech came without {FILE}", lambda: hearing_of(model))
    save(model, tmp_path / "one")
    hearing.save(tmp_path / "one")
    loaded = load(tmp_path / "one")
    assert hearing_of(loaded) == hearing
    assert hearing_of(load(save(loaded, tmp_path / "two"))) == hearing  # it goes along
    (tmp_path / "one" / FILE).write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        hearing_of(loaded)
