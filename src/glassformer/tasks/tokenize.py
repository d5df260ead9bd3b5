"""text ↔ token ids, by the files that came with a model: tokenizer.json, vocabularies with merges, sentencepiece."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from glassformer.checkpoints import Origin, origin_of
from glassformer.errors import CheckpointError, InputError

# What words are read from; others of their files (merges, target.spm) come with one of these.
FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model", "source.spm")


class Words(Protocol):
    """`special`: with the tokens that the model's own input begins and ends with."""

    def encode(self, text: str, *, special: bool = True) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Without special tokens."""


class JsonWords:
    """tokenizer.json, by the library that defines it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_padding()  # some files pad every text to one length, or cut it: that is for a batch to say
        tokenizer.no_truncation()

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


class PieceWords:
    """A sentencepiece model whose numbers are the tokens'; T5 ends with </s>, Llama begins with <s>."""

    def __init__(self, processor: Any, *, begin: bool) -> None:
        self.processor, self.begin = processor, begin

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        found = list(self.processor.encode(text))
        if not special:
            return found
        return [self.processor.bos_id(), *found] if self.begin else [*found, self.processor.eos_id()]

    def decode(self, tokens: Sequence[int]) -> str:
        control, size = self.processor.is_control, self.processor.vocab_size()
        return str(self.processor.decode([i for i in tokens if i < size and not control(i)]))


class MarianWords:
    """Pieces of source.spm and target.spm, numbered by vocab.json; >>fra<< in front names the language to write."""

    def __init__(self, source: Any, target: Any, vocabulary: dict[str, int]) -> None:
        self.source, self.target, self.vocabulary = source, target, vocabulary
        self.pieces = {i: piece for piece, i in vocabulary.items()}
        missing = [token for token in ("</s>", "<unk>") if token not in vocabulary]
        if missing:
            raise CheckpointError(f"vocab.json has no {missing[0]}", "get it again from where it was published")

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        language = re.match(r">>.+?<<", text)
        named = [language[0]] if language else []
        pieces = [*named, *self.source.encode(text[len(language[0]) :] if language else text, out_type=str)]
        unknown = self.vocabulary["<unk>"]
        found = [self.vocabulary.get(piece, unknown) for piece in pieces]
        return [*found, self.vocabulary["</s>"]] if special else found

    def decode(self, tokens: Sequence[int]) -> str:
        skipped = {"</s>", "<unk>", "<pad>"}
        pieces = [self.pieces[i] for i in tokens if self.pieces.get(i, "</s>") not in skipped]
        return str(self.target.decode(pieces))


def words_of(model: nn.Module) -> Words:
    """The words of a model that came from a folder."""
    origin = origin_of(model)
    if origin is None:
        raise InputError(f"this {type(model).__name__} was not loaded from a folder", "give token ids, or load a model")
    return _words(origin.folder, origin.family, _stamp(origin))


def tokenizer_of(model: nn.Module) -> Any:
    """The library's own tokenizer, which training needs: that of a folder with a tokenizer.json."""
    words = words_of(model)
    if not isinstance(words, JsonWords):
        raise InputError("the model's folder has no tokenizer.json", "take a model that has one")
    return words.tokenizer


def _stamp(origin: Origin) -> tuple[int, ...]:
    """When the files were written: others are read anew."""
    return tuple(path.stat().st_mtime_ns if (path := origin.file(name)) else 0 for name in FILES)


@lru_cache(maxsize=8)
def _words(folder: Path, family: str, stamp: tuple[int, ...]) -> Words:
    has = lambda *names: all((folder / name).is_file() for name in names)
    if has("tokenizer.json"):
        return _json(folder / "tokenizer.json")
    if has("source.spm", "target.spm", "vocab.json"):
        vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        return MarianWords(_pieces(folder / "source.spm"), _pieces(folder / "target.spm"), vocabulary)
    for name, begin in (("spiece.model", False), ("tokenizer.model", True)):
        if has(name):
            return PieceWords(_pieces(folder / name), begin=begin)
    if has("vocab.json", "merges.txt"):
        return _merged(folder, family)
    if has("vocab.txt"):
        return _word_pieces(folder)
    raise InputError(f"{folder} has no tokenizer.json", "get the tokenizer's files that belong to the weights")


def _json(path: Path) -> Words:
    from tokenizers import Tokenizer

    try:
        return JsonWords(Tokenizer.from_file(str(path)))
    except Exception as error:  # the library raises plain Exceptions
        raise CheckpointError(f"{path} cannot be read ({str(error)[:80]})", "get it again") from None


def _pieces(path: Path) -> Any:
    try:
        library = importlib.import_module("sentencepiece")
    except ImportError:
        fact = f"{path.name} needs the package sentencepiece, which is not installed"
        raise InputError(fact, "pip install sentencepiece") from None
    try:
        return library.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError, TypeError):
        raise CheckpointError(f"{path} is not a sentencepiece model", "get it again") from None


def _merged(folder: Path, family: str) -> Words:
    """GPT-2 and RoBERTa before tokenizer.json; RoBERTa's texts stand between <s> and </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token in ("<|endoftext|>", "<s>", "</s>", "<pad>", "<mask>") if tokenizer.token_to_id(token)]
    tokenizer.add_special_tokens(special)
    if family == "roberta":
        start, end = (tokenizer.token_to_id(token) for token in ("<s>", "</s>"))
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", end or 2), ("<s>", start or 0))
    return JsonWords(tokenizer)


def _word_pieces(folder: Path) -> Words:
    """BERT before tokenizer.json."""
    from tokenizers import BertWordPieceTokenizer

    settings = folder / "tokenizer_config.json"
    card = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    lower = bool(card.get("do_lower_case", True))
    return JsonWords(BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=lower))
