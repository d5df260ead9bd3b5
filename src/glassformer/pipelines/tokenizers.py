"""text ↔ token ids, by the tokenizer files of a model: tokenizer.json, vocabularies with merges, sentencepiece."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from glassformer.checkpoints import Origin, origin_of
from glassformer.checkpoints.files import read_object
from glassformer.errors import CheckpointError, GlassError, InputError

# Files that identify a tokenizer; others (merges, target.spm) accompany one of these.
FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model", "source.spm")


LARGEST = 200_000_000  # maximum size of a file, in bytes


class TextTokenizer(Protocol):
    """Tokenizer interface. `special`: add the special tokens at the beginning and end of the model's input."""

    def encode(self, text: str, *, special: bool = True) -> list[int]: ...

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts with special tokens, on all cores if the tokenizer can."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode token ids to text, without special tokens."""


class JsonTokenizer:
    """A tokenizer.json, run by the `tokenizers` library."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_padding()  # some files enable padding or truncation, which is left to batching
        tokenizer.no_truncation()
        self._truncating: tuple[int, Any] | None = None

    def truncating(self, length: int) -> Any:
        """Return a copy of the `tokenizers` object that truncates texts, and the longer one of a pair, to `length`."""
        if self._truncating is None or self._truncating[0] != length:
            copy = type(self.tokenizer).from_str(self.tokenizer.to_str())
            copy.enable_truncation(length)
            self._truncating = (length, copy)
        return self._truncating[1]

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        with _readable():
            return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        with _readable():
            return [list(one.ids) for one in self.tokenizer.encode_batch_fast(list(texts))]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


@contextmanager
def _readable() -> Iterator[None]:
    """Turn the plain exceptions of the `tokenizers` library, such as for a vocabulary without its [UNK], into ours."""
    try:
        yield
    except Exception as error:
        raise CheckpointError(f"the tokenizer cannot encode this text ({error})", "download it again") from None


class SentencePieceTokenizer:
    """A sentencepiece model whose piece ids are the token ids; T5 appends </s>, Llama prepends <s>."""

    def __init__(self, processor: Any, *, begin: bool) -> None:
        self.processor, self.begin = processor, begin

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        found = list(self.processor.encode(text))
        if not special:
            return found
        return [self.processor.bos_id(), *found] if self.begin else [*found, self.processor.eos_id()]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        control, size = self.processor.is_control, self.processor.vocab_size()
        return str(self.processor.decode([i for i in tokens if i < size and not control(i)]))


class MarianTokenizer:
    """Pieces of source.spm and target.spm, with ids from vocab.json; a >>fra<< prefix selects the target language."""

    def __init__(self, source: Any, target: Any, vocabulary: dict[str, int]) -> None:
        self.source, self.target, self.vocabulary = source, target, vocabulary
        self.pieces = {i: piece for piece, i in vocabulary.items()}
        missing = [token for token in ("</s>", "<unk>") if token not in vocabulary]
        if missing:
            raise CheckpointError(f"vocab.json has no {missing[0]}", "download it again")

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        language = re.match(r">>.+?<<", text)
        named = [language[0]] if language else []
        pieces = [*named, *self.source.encode(text[len(language[0]) :] if language else text, out_type=str)]
        unknown = self.vocabulary["<unk>"]
        found = [self.vocabulary.get(piece, unknown) for piece in pieces]
        return [*found, self.vocabulary["</s>"]] if special else found

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        skipped = {"</s>", "<unk>", "<pad>"}
        pieces = [self.pieces[i] for i in tokens if self.pieces.get(i, "</s>") not in skipped]
        return str(self.target.decode(pieces))


def tokenizer_of(model: nn.Module) -> TextTokenizer:
    """Return the tokenizer of a model that was loaded from a folder."""
    origin = origin_of(model)
    if origin is None:
        raise InputError(
            f"this {type(model).__name__} was not loaded from a folder",
            "give token ids, or load a saved model, such as gf.load(trained.save(folder))",
        )
    return _words(origin.folder, origin.family, _stamp(origin))


def raw_tokenizer(model: nn.Module) -> Any:
    """Return the underlying `tokenizers` object, needed for training; requires a folder with a tokenizer.json."""
    words = tokenizer_of(model)
    if not isinstance(words, JsonTokenizer):
        raise InputError("the model's folder has no tokenizer.json", "use a model that has one")
    return words.tokenizer


def _stamp(origin: Origin) -> tuple[int, ...]:
    """Modification times of the files, so that changed files are reloaded."""
    return tuple(path.stat().st_mtime_ns if (path := origin.file(name)) else 0 for name in FILES)


@lru_cache(maxsize=8)
def _words(folder: Path, family: str, stamp: tuple[int, ...]) -> TextTokenizer:
    """Load the tokenizer of a folder. Damaged files raise errors that name them, whatever the libraries raise."""
    for name in (*FILES, "merges.txt", "target.spm", "tokenizer_config.json"):
        path = folder / name
        if path.is_file() and path.stat().st_size > LARGEST:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes", f"the limit is {LARGEST}")
    try:
        words = _read_words(folder, family)
        words.decode(words.encode("a"))  # some damage shows only in use
        return words
    except (GlassError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the libraries raise plain Exceptions, and panics that are not Exceptions
        found = [name for name in FILES if (folder / name).is_file()]
        first = (str(error).strip().splitlines() or [""])[0][:80]
        fact = f"the tokenizer of {folder} ({', '.join(found)}) cannot be read ({type(error).__name__}: {first})"
        raise CheckpointError(fact, "download its files again") from None


def _read_words(folder: Path, family: str) -> TextTokenizer:
    has = lambda *names: all((folder / name).is_file() for name in names)
    if has("tokenizer.json"):
        return _json(folder / "tokenizer.json")
    if has("source.spm", "target.spm", "vocab.json"):
        vocabulary = read_object(folder / "vocab.json", LARGEST)
        wrong = next((piece for piece, i in vocabulary.items() if type(i) is not int or i < 0), None)
        if wrong is not None:
            fact = f"vocab.json gives {wrong[:40]!r} the id {str(vocabulary[wrong])[:40]}"
            raise CheckpointError(fact, "download it again")
        return MarianTokenizer(_pieces(folder / "source.spm"), _pieces(folder / "target.spm"), vocabulary)
    for name, begin in (("spiece.model", False), ("tokenizer.model", True)):
        if has(name):
            return SentencePieceTokenizer(_pieces(folder / name), begin=begin)
    if has("vocab.json", "merges.txt"):
        return _merged(folder, family)
    if has("vocab.txt"):
        return _word_pieces(folder)
    raise InputError(f"{folder} has no tokenizer.json", "download the tokenizer files of these weights")


def _json(path: Path) -> TextTokenizer:
    from tokenizers import Tokenizer

    try:
        return JsonTokenizer(Tokenizer.from_file(str(path)))
    except Exception as error:  # the library raises plain Exceptions
        raise CheckpointError(f"{path} cannot be read ({str(error)[:80]})", "download it again") from None


def _pieces(path: Path) -> Any:
    try:
        library = importlib.import_module("sentencepiece")
    except ImportError:
        fact = f"{path.name} needs the package sentencepiece, which is not installed"
        raise InputError(fact, "pip install sentencepiece") from None
    try:
        return library.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError, TypeError):
        raise CheckpointError(f"{path} is not a sentencepiece model", "download it again") from None


def _merged(folder: Path, family: str) -> TextTokenizer:
    """GPT-2 and RoBERTa tokenizers without tokenizer.json; RoBERTa wraps texts in <s> and </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<mask>"]
    special = [token for token in special if tokenizer.token_to_id(token) is not None]
    tokenizer.add_special_tokens(special)
    if family == "roberta":
        start, end = (tokenizer.token_to_id(token) for token in ("<s>", "</s>"))
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", end or 2), ("<s>", start or 0))
    return JsonTokenizer(tokenizer)


def _word_pieces(folder: Path) -> TextTokenizer:
    """BERT tokenizers without tokenizer.json."""
    from tokenizers import BertWordPieceTokenizer

    settings = folder / "tokenizer_config.json"
    card = read_object(settings) if settings.is_file() else {}
    lower = bool(card.get("do_lower_case", True))
    wrapped = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=lower)
    return JsonTokenizer(wrapped._tokenizer)  # the wrapper lacks encode_batch_fast and from_str


# ---- tokens of any model, with a tokenizer or without ----------------------------------------------------------------


def optional_tokenizer(model: nn.Module) -> TextTokenizer | None:
    """Return the tokenizer of a model, or None if it has none."""
    origin = origin_of(model)
    return tokenizer_of(model) if origin is not None and any(map(origin.file, FILES)) else None


def tokens_of(model: nn.Module, text: str, *, special: bool = True) -> Tensor:
    """Tokenize a text to ids (1, n); without a tokenizer the text must be token ids: "3 1 4"."""
    words = optional_tokenizer(model)
    if words is not None:
        found = words.encode(text, special=special)
    elif re.fullmatch(r"\s*(\d+([\s,]+\d+)*)?\s*", text):
        found = [int(word) for word in re.findall(r"\d+", text)]
    else:
        raise InputError(f"the model has no tokenizer.json, which {text[:30]!r} needs", 'give token ids: "3 1 4"')
    if not found or not text.strip():  # special tokens alone are not a text
        raise InputError(f"{text!r} has no tokens", "give a text that is not empty")
    return torch.tensor([found])


def token_name(words: TextTokenizer | None, token: int) -> str:
    """Return a token's display name; special tokens are shown by name."""
    match words:
        case JsonTokenizer(tokenizer=own):
            text = str(own.decode([token], skip_special_tokens=False) or own.id_to_token(token))
            return _bytes_of(own.id_to_token(token)) if REPLACED in text else text
        case MarianTokenizer(pieces=pieces):
            return pieces.get(token, str(token)).replace("▁", " ")
        case SentencePieceTokenizer(processor=own) if token < own.vocab_size():
            return str(own.id_to_piece(token)).replace("▁", " ")
    return str(token)


REPLACED = "\ufffd"  # what a decoder writes for bytes that are no character


def _bytes_of(piece: str) -> str:
    """Return a token that is only a part of a character as its bytes: <0xE2><0x82>, as SentencePiece writes them."""
    known = {char: byte for byte, char in enumerate(_byte_letters())}
    return "".join(f"<0x{known[char]:02X}>" if char in known else char for char in piece)


@cache
def _byte_letters() -> list[str]:
    """The letters by which byte-level BPE (Radford et al., 2019) writes the bytes 0 to 255."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
