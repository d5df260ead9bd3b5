"""Vocabularies of sentencepiece and tiktoken become tokenizer.json."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from glassformer.checkpoints.convert.bpe import from_merges, from_pieces, from_ranks
from glassformer.errors import CheckpointError

CORPUS = (
    "Once upon a time there was a little girl who liked to play outside in the park with her ball. "
    "One day she saw a big tree; the tree had red apples, and she wanted to eat one. "
    "Her mum said: you can't eat it now, it's 12 o'clock, let's go home. "
)
TEXTS = [
    "Once upon a time",
    "the  big\ntree, 12 apples!",
    "naïve café 日本 ♪ 🙂",
    " leading and trailing ",
    "can't it's o'clock",
    "x",
]


@pytest.fixture(scope="module")
def sentencepiece_model() -> Any:
    spm = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.split(". ")),
        model_writer=out,
        vocab_size=380,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=out.getvalue())


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_as_sentencepiece(sentencepiece_model: Any, text: str) -> None:
    sp = sentencepiece_model
    pieces = [sp.id_to_piece(i) for i in range(sp.vocab_size())]
    scores = [sp.get_score(i) for i in range(sp.vocab_size())]
    ours = from_pieces(pieces, scores, special={0: "<unk>", 1: "<s>", 2: "</s>"}, bos=1)
    text = text.replace("\n", " ") if "\n" in text else text
    found = ours.encode(text).ids
    assert found == [1, *sp.encode(text)]
    assert ours.decode(found) == text


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    return tokenizer


def ranked(tokenizer: Tokenizer) -> list[bytes]:
    """Its tokens as byte strings, in their order: what a tiktoken file holds."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    back = {letter: byte for byte, letter in bytes_to_unicode().items()}
    words = sorted(tokenizer.get_vocab().items(), key=lambda one: one[1])
    return [bytes(back[letter] for letter in word) for word, _ in words]


@pytest.mark.parametrize("text", TEXTS)
def test_ranks_as_tiktoken(trained: Tokenizer, text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    words = ranked(trained)
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    ranks = {word: i for i, word in enumerate(words)}
    theirs = tiktoken.Encoding("t", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|end|>": len(words)})
    lines = b"\n".join(base64.b64encode(word) + b" %d" % i for i, word in enumerate(words))
    ours = from_ranks(lines, ["<|end|>"])
    assert ours.encode(text).ids == theirs.encode(text)
    assert ours.decode(ours.encode(text).ids) == text
    assert ours.encode("<|end|>").ids == [len(words)]


def test_merges_and_the_parting_of_digits(trained: Tokenizer) -> None:
    import json

    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [" ".join(pair) for pair in model["merges"]]
    special = {len(tokens): "<s>"}
    ours = from_merges([*tokens, "<s>"], merges, special=special, bos=len(tokens), parting="gpt-2")
    for text in TEXTS:
        assert ours.encode(text).ids == [len(tokens), *trained.encode(text).ids]
    digits = from_merges([*tokens, "<s>"], merges, special=special, bos=None, parting="smollm")
    assert digits.encode("12").tokens == ["1", "2"]
    llama = from_merges([*tokens, "<s>"], merges, special=special, bos=None, parting="llama-bpe")
    assert llama.decode(llama.encode("a 1234 b").ids) == "a 1234 b"


def test_what_is_refused(refused: Any) -> None:
    odd = lambda: from_merges(["a", "b"], ["a b"], special={}, bos=None, parting="odd")
    refused(CheckpointError, "the pre-tokenizer 'odd' is not supported", odd)
    refused(
        CheckpointError,
        "the vocabulary is not made of lines with a base64 token and its rank",
        lambda: from_ranks(b"!!! x", []),
    )
    joined = lambda: from_merges(["ab"], ["ab"], special={}, bos=None, parting="")
    refused(CheckpointError, "the tokenizer has the merge 'ab': a merge is two tokens", joined)
