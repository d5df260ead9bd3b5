from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints import load
from glassformer.errors import CheckpointError, InputError
from glassformer.models import Decoder, decoder
from glassformer.tasks.tokenize import MarianWords, PieceWords, words_of


def test_tokenizer_json_neither_pads_nor_cuts(bert: Path) -> None:
    words = words_of(load(bert))
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
    words = words_of(load(folder))
    theirs = words_of(load(gpt2))
    for text in ("the cat sat", " naïve  café\n12"):
        assert words.encode(text) == theirs.encode(text)
        assert words.decode(words.encode(text)) == text


def test_vocab_txt(hf: Any, bert: Path, tmp_path: Path) -> None:
    vocabulary = json.loads((bert / "tokenizer.json").read_text())["model"]["vocab"]
    folder = tmp_path / "old"
    shutil.copytree(bert, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    words = words_of(load(folder))
    assert words.encode("The cat") == words_of(load(bert)).encode("the cat")


@pytest.fixture(scope="module")
def processor() -> Any:
    spm = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    text = ["the cat sat on the mat because it was soft and warm", "the dog sat in the garden"]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text * 4), model_writer=out, vocab_size=28, minloglevel=2)
    return spm.SentencePieceProcessor(model_proto=out.getvalue())


def test_sentencepiece(processor: Any) -> None:
    ends, begins = PieceWords(processor, begin=False), PieceWords(processor, begin=True)
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
    ours = MarianWords(processor, processor, vocabulary)
    for text in ("the cat sat", ">>fra<<the mat", "the zebra"):
        assert ours.encode(text) == theirs(text)["input_ids"]
    tokens = ours.encode("the cat sat on the mat")
    assert ours.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True) == "the cat sat on the mat"


def test_what_is_refused(gpt2: Path, tmp_path: Path, refused: Any) -> None:
    built = Decoder(decoder.tiny())
    refused(InputError, "this Decoder was not loaded from a folder", lambda: words_of(built))
    folder = tmp_path / "bare"
    shutil.copytree(gpt2, folder)
    (folder / "tokenizer.json").write_text("{}")
    refused(CheckpointError, f"{folder / 'tokenizer.json'} cannot be read", lambda: words_of(load(folder)))
    (folder / "tokenizer.json").unlink()
    refused(InputError, f"{folder} has no tokenizer.json", lambda: words_of(load(folder)))
    (folder / "spiece.model").write_bytes(b"nothing")
    refused(CheckpointError, f"{folder / 'spiece.model'} is not a sentencepiece model", lambda: words_of(load(folder)))
