"""Stopping criteria: an answer ends at an end token, at a stop sequence, or at its maximum length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from glassformer.decoding.sampling import require_tokens
from glassformer.errors import ConfigError


class Ending(NamedTuple):
    """Why an answer ended, and how many of its last tokens belong to the end token or stop sequence."""

    why: Literal["end", "stop", "length"]
    tail: int


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Stopping criteria. `max_new_tokens` of None allows the whole context; `ends` of None uses the model's end tokens.

    Before `min_new_tokens` tokens no end token is chosen and stop sequences are ignored. `texts` are matched against
    the answer so far as decoded by `decode` (of a tokenizer), since a stop string may begin and end inside tokens.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    ends: tuple[int, ...] | None = None
    stops: tuple[tuple[int, ...], ...] = ()
    texts: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens is {self.max_new_tokens}", "ask for at least 1 new token")
        if self.min_new_tokens < 0 or (self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens):
            remedy = f"choose 0 to max_new_tokens ({self.max_new_tokens})"
            raise ConfigError(f"min_new_tokens is {self.min_new_tokens}", remedy)
        if self.ends is not None:
            require_tokens("ends", self.ends)
        for stop in self.stops:
            require_tokens("a stop sequence", stop)
        if type(self.texts) not in (tuple, list) or not all(self.texts) or not all(self.stops):
            fact = f"stops are {self.stops!r} and texts {self.texts!r}"
            raise ConfigError(fact, "give tuples of sequences, none of them empty")
        if bool(self.texts) != (self.decode is not None):
            fact = f"texts are {self.texts!r} and decode is {self.decode!r}"
            raise ConfigError(fact, "give both or neither: decode turns tokens into the text that is searched")

    def ending(self, tokens: Sequence[int], limit: int, ends: Sequence[int]) -> Ending | None:
        """Return how an answer of these tokens has just ended, or None if it continues."""
        if tokens[-1] in ends:
            return Ending("end", 1)
        if len(tokens) >= self.min_new_tokens:
            found = [len(stop) for stop in self.stops if list(tokens[-len(stop) :]) == list(stop)]
            if found:
                return Ending("stop", max(found))
            if self.decode is not None and any(text in self.decode(tokens) for text in self.texts):
                return Ending("stop", 0)
        return Ending("length", 0) if len(tokens) >= limit else None


UNTIL_THE_END = Stopping()  # the model's own end token, or the end of its context


@dataclass(frozen=True, kw_only=True)
class Answer:
    """All generated tokens, including the end token or stop sequence, and the log-probability of each."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: Ending
    score: float  # Σ logprobs; in beam search, divided by length ** length_penalty

    @property
    def body(self) -> tuple[int, ...]:
        """The tokens without the end token or stop sequence. Stop strings are cut from the text, not from here."""
        return self.tokens[: len(self.tokens) - self.ended.tail]
