"""Writers and finders from a wish: text that is cut, text that is given to hold out, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.checkpoints import save
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, ViT, decoder, vit
from glassformer.tasks.learn.start_text import LENGTH, start_embed, start_generate
from glassformer.tasks.learn.wish import Wish


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    (tmp_path / "text.txt").write_text("".join(f"the cat {i} sat on the mat with the dog {i}\n" for i in range(400)))
    return tmp_path / "text.txt"


def test_the_end_of_a_text_is_held_out_unless_another_is_given(text: Path, tmp_path: Path) -> None:
    small = {"width": 16, "depth": 1, "heads": 2, "vocabulary": 300}
    cut = start_generate(Wish(data=str(text), **small))
    learned, held = cut.what.split(" tokens of text, ")
    assert int(held.split()[0]) == round(0.1 * (int(learned) + int(held.split()[0])))
    (tmp_path / "other.txt").write_text("another text, " * 200)
    given = start_generate(Wish(data=str(text), held=str(tmp_path / "other.txt"), **small))
    assert int(given.what.split()[0]) == int(learned) + int(held.split()[0])
    assert given.model.config.length == 2 * LENGTH


def test_sentences_are_held_out_by_line(text: Path) -> None:
    begun = start_embed(Wish(data=str(text), width=16, depth=1, heads=2, vocabulary=300))
    assert begun.what == "360 sentences, 40 held out"


def test_what_is_refused(text: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    seer, mute = save(ViT(vit.tiny()), tmp_path / "vit"), save(Decoder(decoder.tiny()), tmp_path / "mute")
    wish = lambda **more: Wish(data=str(text), **more)
    says = f"{seer} holds a ViT: go on from a model that writes"
    refused(InputError, says, lambda: start_generate(wish(base=str(seer))))
    refused(InputError, f"{seer} holds a ViT: go on from an encoder", lambda: start_embed(wish(base=str(seer))))
    refused(InputError, f"{mute} has no tokenizer.json", lambda: start_generate(wish(base=str(mute))))
    refused(ConfigError, "heads 2 means nothing to a recurrent net", lambda: start_generate(wish(kind="rnn", heads=2)))
    refused(ConfigError, "there is no 'rnn' for this task", lambda: start_embed(wish(kind="rnn")))
