from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.app.words import Words
from glassformer.checkpoints import load, save
from glassformer.errors import InputError
from glassformer.models import Decoder, decoder


def test_without_a_tokenizer_text_is_ids() -> None:
    words = Words(Decoder(decoder.tiny()))
    assert words.ids("3, 1 4").tolist() == [[3, 1, 4]]
    assert words.text(7) == "7"
    with pytest.raises(InputError, match=r"no tokenizer.json to read 'the cat'"):
        words.ids("the cat")


def test_with_a_tokenizer_text_is_text(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    save(Decoder(decoder.tiny()), tmp_path / "m")
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "the": 1, "cat": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "m" / "tokenizer.json"))
    words = Words(load(tmp_path / "m"))
    assert words.ids("the cat").tolist() == [[1, 2]]
    assert words.text(2) == "cat"
    with pytest.raises(InputError, match="is 0 tokens"):
        words.ids("")
