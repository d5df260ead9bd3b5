from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints import load_folder, save
from glassformer.errors import CheckpointError, InputError
from glassformer.models import Decoder, decoder
from glassformer.pipelines.tokenizers import (
    JsonTokenizer,
    MarianTokenizer,
    SentencePieceTokenizer,
    optional_tokenizer,
    token_name,
    tokenizer_of,
    tokens_of,
)


def test_tokenizer_json_neither_pads_nor_cuts(bert: Path) -> None:
    words = tokenizer_of(load_folder(bert))
    tokens = words.encode("the cat sat on the mat because it was soft")
    assert len(tokens) > 8
    assert (tokens[0], tokens[-1]) == (2, 3)
    assert 0 not in tokens
    assert words.encode("the cat", special=False) == words.encode("the cat")[1:-1]
    assert words.decode(words.encode("the cat")) == "the cat"


def test_merges_as_hugging_face_reads_them(hf: Any, gpt2: Path, tmp_path: Path) -> None:
    model = json.loads((gpt2 / "tokenizer.json").read_text())["model"]
    folder = tmp_path / "old"
    shutil.copytree(gpt2, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(pair) for pair in model["merges"]))
    words = tokenizer_of(load_folder(folder))
    theirs = tokenizer_of(load_folder(gpt2))
    for text in ("the cat sat", " naïve  café\n12"):
        assert words.encode(text) == theirs.encode(text)
        assert words.decode(words.encode(text)) == text


def test_vocab_txt(hf: Any, bert: Path, tmp_path: Path) -> None:
    vocabulary = json.loads((bert / "tokenizer.json").read_text())["model"]["vocab"]
    folder = tmp_path / "old"
    shutil.copytree(bert, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    words, theirs = tokenizer_of(load_folder(folder)), tokenizer_of(load_folder(bert))
    assert words.encode("The cat") == theirs.encode("the cat")
    assert words.encode_all(["The cat", "the dog"]) == theirs.encode_all(["the cat", "the dog"])
    assert isinstance(words, JsonTokenizer)
    assert len(words.truncating(3).encode("the cat sat").ids) == 3


@pytest.fixture(scope="module")
def processor() -> Any:
    spm = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    text = ["the cat sat on the mat because it was soft and warm", "the dog sat in the garden"]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text * 4), model_writer=out, vocab_size=28, minloglevel=2)
    return spm.SentencePieceProcessor(model_proto=out.getvalue())


def test_a_vocabulary_without_its_unknown_token(refused: Any) -> None:
    from tokenizers import Tokenizer, models

    damaged = JsonTokenizer(Tokenizer(models.WordLevel({"cat": 0}, unk_token="[UNK]")))
    assert damaged.encode("cat") == [0]
    refused(CheckpointError, "the tokenizer cannot encode this text (WordLevel error", lambda: damaged.encode("dog"))
    refused(CheckpointError, "the tokenizer cannot encode this text (WordLevel", lambda: damaged.encode_all(["dog"]))


def test_sentencepiece(processor: Any) -> None:
    ends, begins = SentencePieceTokenizer(processor, begin=False), SentencePieceTokenizer(processor, begin=True)
    assert ends.encode("the cat") == [*processor.encode("the cat"), processor.eos_id()]
    assert begins.encode("the cat") == [processor.bos_id(), *processor.encode("the cat")]
    assert ends.decode(ends.encode("the cat")) == "the cat"
    assert ends.decode([*ends.encode("the cat"), 10_000]) == "the cat"  # T5 has more tokens than pieces


def test_marian_as_hugging_face(hf: Any, processor: Any, tmp_path: Path) -> None:
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    names = ["</s>", "<unk>", ">>fra<<", *[piece for piece in pieces if not piece.startswith("<")], "<pad>"]
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(names))}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(processor.serialized_model_proto())
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        theirs = hf.MarianTokenizer.from_pretrained(tmp_path)
    ours = MarianTokenizer(processor, processor, vocabulary)
    for text in ("the cat sat", ">>fra<<the mat", "the zebra"):
        assert ours.encode(text) == theirs(text)["input_ids"]
    tokens = ours.encode("the cat sat on the mat")
    assert ours.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True) == "the cat sat on the mat"


def test_what_is_refused(gpt2: Path, tmp_path: Path, refused: Any) -> None:
    built = Decoder(decoder.tiny())
    refused(InputError, "this Decoder was not loaded from a folder", lambda: tokenizer_of(built))
    folder = tmp_path / "bare"
    shutil.copytree(gpt2, folder)
    (folder / "tokenizer.json").write_text("{}")
    refused(CheckpointError, f"{folder / 'tokenizer.json'} cannot be read", lambda: tokenizer_of(load_folder(folder)))
    (folder / "tokenizer.json").unlink()
    refused(InputError, f"{folder} has no tokenizer.json", lambda: tokenizer_of(load_folder(folder)))
    (folder / "spiece.model").write_bytes(b"nothing")
    refused(
        CheckpointError,
        f"{folder / 'spiece.model'} is not a sentencepiece model",
        lambda: tokenizer_of(load_folder(folder)),
    )


def test_without_words_text_is_numbers() -> None:
    model = Decoder(decoder.tiny())
    assert optional_tokenizer(model) is None
    assert tokens_of(model, "3, 1 4").tolist() == [[3, 1, 4]]
    assert token_name(None, 7) == "7"
    with pytest.raises(InputError, match=r"no tokenizer.json, which 'the cat' needs"):
        tokens_of(model, "the cat")
    with pytest.raises(InputError, match="has no tokens"):
        tokens_of(model, " ")


def test_with_words_text_is_text(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    save(Decoder(decoder.tiny()), tmp_path / "m")
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "the": 1, "cat": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(tmp_path / "m" / "tokenizer.json"))
    model = load_folder(tmp_path / "m")
    assert tokens_of(model, "the cat").tolist() == [[1, 2]]
    assert [token_name(optional_tokenizer(model), i) for i in (2, 3)] == ["cat", "<end>"]
    with pytest.raises(InputError, match="has no tokens"):
        tokens_of(model, "")


def test_pieces_are_shown_without_their_mark() -> None:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat"] * 5), model_writer=made, vocab_size=11, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    words = SentencePieceTokenizer(pieces, begin=False)
    (first, *_) = words.encode("the cat", special=False)
    assert token_name(words, first) == pieces.id_to_piece(first).replace("▁", " ")
    assert token_name(words, 99) == "99"
    marian = MarianTokenizer(pieces, pieces, {"</s>": 0, "<unk>": 1, "▁the": 2})
    assert [token_name(marian, i) for i in (0, 2, 9)] == ["</s>", " the", "9"]
