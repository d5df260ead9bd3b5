"""text ↔ characters of a CTC head: character i of the list is column i + 1 of the logits, column 0 is the blank."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.native import replace_file
from glassformer.core.audio import MEL, MelConfig
from glassformer.data.faults import Fault
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.pipelines.speech.ngram import FILE as NGRAM
from glassformer.pipelines.speech.ngram import WORD_SEARCH, CharNgram, WordSearch

FILE = "symbols.json"
SPACE = " "


@dataclass(frozen=True)
class Charset:
    """A list of single characters that includes the space, which ends a word."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        wrong = [name for name in self.names if len(name) != 1]
        if wrong or len(set(self.names)) < len(self.names) or SPACE not in self.names:
            fact = f"the symbols are {''.join(self.names[:40])!r}"
            raise ConfigError(fact, "give distinct single characters that include the space")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def space(self) -> int:
        return self.names.index(SPACE) + 1

    def encode(self, text: str) -> list[int]:
        """Encode a text, whose characters must all be in the charset; see `normalize_transcript`."""
        numbers = {name: i for i, name in enumerate(self.names, 1)}
        missing = next((letter for letter in text if letter not in numbers), None)
        if missing is not None:
            remedy = f"write it with {''.join(self.names)!r}"
            raise InputError(f"{missing!r} in {text[:40]!r} is not a symbol of the model", remedy)
        return [numbers[letter] for letter in text]

    def decode(self, tokens: Iterable[int]) -> str:
        return "".join(self.names[token - 1] for token in tokens)


LETTERS = Charset((SPACE, "'", *string.ascii_lowercase))


@dataclass(frozen=True, kw_only=True)
class RecognizerConfig:
    """Config of a recognizer besides its weights: `stack` frames of `mel` make one row of logits over the `charset`.

    With an `ngram` model, rows are decoded by beam search with the settings of `search`.
    """

    charset: Charset = LETTERS
    mel: MelConfig = MEL
    stack: int = 1
    ngram: CharNgram | None = None
    search: WordSearch = WORD_SEARCH

    @property
    def seconds(self) -> float:
        """Duration of one row."""
        return self.stack * self.mel.hop / self.mel.rate

    def save(self, folder: Path) -> None:
        raw = {"symbols": "".join(self.charset.names), "mel": asdict(self.mel), "stack": self.stack}
        text = json.dumps(raw | {"search": asdict(self.search)}, indent=1) + "\n"
        replace_file(folder / FILE, lambda path: path.write_text(text, encoding="utf-8"))
        (folder / NGRAM).unlink(missing_ok=True)
        if self.ngram is not None:
            replace_file(folder / NGRAM, self.ngram.write)


def recognizer_config(model: nn.Module) -> RecognizerConfig:
    """Read the config from the folder that a model was loaded from."""
    origin = origin_of(model)
    path = None if origin is None else origin.file(FILE)
    if origin is None or path is None:
        fact = f"a {type(model).__name__} has no {FILE}"
        raise InputError(fact, "load a speech recogniser that was saved with its symbols")
    ngram = origin.file(NGRAM)
    try:
        raw: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return RecognizerConfig(
            charset=Charset(tuple(raw["symbols"])),
            mel=MelConfig(**raw["mel"]),
            stack=raw["stack"],
            ngram=None if ngram is None else CharNgram.read(ngram),
            search=WordSearch(**raw["search"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error})", "save the model again") from None


# ---- a transcript as it is spoken ------------------------------------------------------------------------------------

_ONES: tuple[str, ...] = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ONES += ("eleven", "twelve", *(f"{stem}teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")))
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SIGNS = {"*": " star ", "#": " pound ", "&": " and ", "%": " percent ", "@": " at ", "+": " plus "}


def normalize_transcript(text: str) -> str:
    """Normalise to lower-case letters, apostrophes and single spaces; spell out numbers and symbols in English."""
    text = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = re.sub(r"\d+", lambda found: f" {_number(found[0])} ", text)
    # marks are parts of letters: the vowel signs of Hindi and Thai
    kept = (c if c.isalnum() or c == "'" or unicodedata.category(c)[0] == "M" else " " for c in text)
    words = (word.strip("'") for word in "".join(kept).split())
    return " ".join(word for word in words if word)


def needs_english(text: str) -> bool:
    """Return whether a transcript has digits or symbols, which `normalize_transcript` spells out in English."""
    return _spelled_out(text) is not None


def _spelled_out(text: str) -> str | None:
    return next((c for c in text if c.isdigit() or c in _SIGNS), None)


def spoken(text: str, charset: Charset, place: str) -> str:
    """Normalise a transcript; raises a Fault if it needs English and the model knows other letters."""
    first = _spelled_out(text)
    if first is not None and not set(charset.names) <= set(LETTERS.names):
        what = "digits, which are" if first.isdigit() else f"{first!r}, which is"
        raise Fault(f"transcript with {what} spelled out in English only: write them as words", place)
    return normalize_transcript(text)


def _number(digits: str) -> str:
    """Spell out numbers below a hundred and whole hundreds; others digit by digit, like telephone numbers."""
    value = int(digits)
    if digits[0] == "0" and len(digits) > 1:
        return " ".join(_ONES[int(digit)] for digit in digits)
    if value < 20:
        return _ONES[value]
    if value < 100:
        return _TENS[value // 10 - 2] + (f" {_ONES[value % 10]}" if value % 10 else "")
    if value < 1000 and value % 100 == 0:
        return f"{_ONES[value // 100]} hundred"
    return " ".join(_ONES[int(digit)] for digit in digits)
