from __future__ import annotations

import io
from pathlib import Path

import pytest

from glassformer.app.tokens import name_of, tokens_of, words_beside
from glassformer.checkpoints import load, save
from glassformer.errors import InputError
from glassformer.models import Decoder, decoder
from glassformer.tasks.tokenize import MarianWords, PieceWords


def test_without_words_text_is_numbers() -> None:
    model = Decoder(decoder.tiny())
    assert words_beside(model) is None
    assert tokens_of(model, "3, 1 4").tolist() == [[3, 1, 4]]
    assert name_of(None, 7) == "7"
    with pytest.raises(InputError, match=r"no tokenizer.json to read 'the cat'"):
        tokens_of(model, "the cat")
    with pytest.raises(InputError, match="is 0 tokens"):
        tokens_of(model, " ")


def test_with_words_text_is_text(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    save(Decoder(decoder.tiny()), tmp_path / "m")
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "the": 1, "cat": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(tmp_path / "m" / "tokenizer.json"))
    model = load(tmp_path / "m")
    assert tokens_of(model, "the cat").tolist() == [[1, 2]]
    assert [name_of(words_beside(model), i) for i in (2, 3)] == ["cat", "<end>"]
    with pytest.raises(InputError, match="is 0 tokens"):
        tokens_of(model, "")


def test_pieces_are_shown_without_their_mark() -> None:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat"] * 5), model_writer=made, vocab_size=11, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    words = PieceWords(pieces, begin=False)
    (first, *_) = words.encode("the cat", special=False)
    assert name_of(words, first) == pieces.id_to_piece(first).replace("▁", " ")
    assert name_of(words, 99) == "99"
    marian = MarianWords(pieces, pieces, {"</s>": 0, "<unk>": 1, "▁the": 2})
    assert [name_of(marian, i) for i in (0, 2, 9)] == ["</s>", " the", "9"]
