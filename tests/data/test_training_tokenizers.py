from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.bpe import save, train
from glassformer.errors import ConfigError, InputError

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "été à la plage\n\n  deux"] * 4


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train(iter(TEXTS), 290, end="</s>")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_encoding_and_decoding(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text or "</s>" in text
    assert all(i >= 3 for i in ids) or any(token in text for token in ("<pad>", "<s>", "</s>"))


def test_the_vocabulary(tokenizer: Any) -> None:
    assert tokenizer.get_vocab_size() == 290
    assert [tokenizer.id_to_token(i) for i in range(3)] == ["<pad>", "<s>", "</s>"]
    assert len(tokenizer.encode("the sat on").ids) < len("the sat on") - 3, "what is common was merged"
    assert tokenizer.encode("the").ids[-1] == 2
    assert train(["ab"], 1000).get_vocab_size() == 260, "no more than there are pairs to merge"


def test_the_same_texts_give_the_same_tokenizer(tokenizer: Any) -> None:
    assert train(TEXTS, 290, end="</s>").to_str() == tokenizer.to_str()


def test_around_a_text() -> None:
    made = train(TEXTS, 270, ("<pad>", "<s>", "</s>", "<mask>"), begin="<s>", end="</s>")
    assert made.encode("").ids == [1, 2]
    assert made.encode("a<mask>").ids[-2:] == [3, 2]
    plain = train(TEXTS, 270, ("<|endoftext|>",))
    assert plain.encode("").ids == []


def test_the_saved_folder_is_read_by_others(tokenizer: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from glassformer.pipelines.tokenizers import _json

    save(tokenizer, tmp_path / "new")
    text = "the cat's été\n"
    ids = tokenizer.encode(text).ids
    words = _json(tmp_path / "new" / "tokenizer.json")
    assert words.encode(text) == ids
    assert words.decode(ids) == text
    theirs = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert theirs(text)["input_ids"] == ids
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2)
    assert json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())["eos_token"] == "</s>"


def test_what_is_refused(refused: Any) -> None:
    text = "a vocabulary of 258 has no room for 256 bytes and 3 special tokens: choose at least 259"
    refused(ConfigError, text, lambda: train(TEXTS, 258))
    refused(
        ConfigError, "the special tokens <s>, <s> are not distinct: list", lambda: train(TEXTS, 300, ("<s>", "<s>"))
    )
    refused(ConfigError, "begin or end token <e> is not special: choose", lambda: train(TEXTS, 300, end="<e>"))
    refused(InputError, "there is no text to train a tokenizer on: give", lambda: train(["", ""], 300))
