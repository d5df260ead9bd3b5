"""What the model was given, as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.app.tokens import name_of, words_beside
from glassformer.errors import InputError

FIRST_WORD = 3  # below it tiny models keep their padding, start and end
SHOWN = 60  # letters of an input in a title


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An input as tensors, and what each stack's positions are called (None: numbers do).

    `heard` positions of the encoder hold sound, of `seconds` each; `said`: the model's own answer to the whole input.
    `towers`: a model of several is shown one by one.
    """

    inputs: tuple[Tensor, ...]
    title: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    picture: NDArray[np.float64] | None = None
    grid: tuple[int, int] | None = None
    heard: int = 0
    seconds: float = 0.0
    said: str = ""
    towers: tuple[tuple[str, nn.Module, Seen], ...] = ()

    def labels_of(self, path: str) -> tuple[list[str] | None, list[str] | None]:
        """Names of the queries and of the keys of an attention layer, or of its quantity."""
        stack = path.split(".")[0]
        source = "encoder" if ".cross" in path else stack
        return self.labels.get(stack), self.labels.get(source)

    @property
    def tokens(self) -> Tensor | dict[str, Tensor] | None:
        """As head scores want them."""
        if len(self.inputs) == 2:
            both = zip(("encoder", "decoder"), self.inputs, strict=True)
            return {stack: x for stack, x in both if not x.is_floating_point()}
        return next((x for x in self.inputs if not x.is_floating_point()), None)


class Reader:
    """Words by the model's tokenizer; without one, words become tokens in the order in which they come."""

    def __init__(self, model: nn.Module, vocabulary: int) -> None:
        self.words, self.vocabulary = words_beside(model), vocabulary
        self.seen: dict[str, int] = {}

    def read(self, text: str, *, special: bool = True) -> tuple[list[int], list[str]]:
        if is_file(text):
            raise InputError(f"{text!r} is a file, and the model reads text", "give the text itself")
        if self.words is not None:
            ids = self.words.encode(text, special=special)
            names = [name_of(self.words, i) for i in ids]
        else:
            names = text.split()
            ids = [self.seen.setdefault(name, FIRST_WORD + len(self.seen)) for name in names]
        if not ids or not text.strip():  # what some models begin and end with is no text
            raise InputError(f"{text!r} is 0 tokens", "give some text")
        if max(ids) >= self.vocabulary:
            fact = f"{len(self.seen) or max(ids)} different words for a vocabulary of {self.vocabulary}"
            raise InputError(fact, "give a shorter text")
        return ids, names

    @property
    def notes(self) -> tuple[str, ...]:
        what = "The model came without tokenizer.json: each new word was given the next token, from"
        return () if self.words is not None else (f"{what} {FIRST_WORD} on.",)


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than any name, or with letters that no name has
        return False


def short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
