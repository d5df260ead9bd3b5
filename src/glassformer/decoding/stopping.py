"""When an answer ends: at an end token, at a stop sequence, or at the length it may have; and what it is then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from glassformer.decoding.choose import require_tokens
from glassformer.errors import ConfigError


class Ending(NamedTuple):
    """Why an answer ended, and how many of its last tokens are the end token or the stop sequence."""

    why: Literal["end", "stop", "length"]
    tail: int


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """`max_new` of None is as far as the model's context reaches, `ends` of None the model's own end tokens.

    Before `min_new` tokens no end token is chosen and no stop is looked for. `texts` are looked for in what `decode`
    (of a tokenizer) makes of the answer so far, since a piece of text may begin and end inside tokens.
    """

    max_new: int | None = None
    min_new: int = 0
    ends: tuple[int, ...] | None = None
    stops: tuple[tuple[int, ...], ...] = ()
    texts: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.max_new is not None and self.max_new < 1:
            raise ConfigError(f"max_new is {self.max_new}", "ask for at least 1 new token")
        if self.min_new < 0 or (self.max_new is not None and self.min_new > self.max_new):
            raise ConfigError(f"min_new is {self.min_new}", f"choose 0 to max_new ({self.max_new})")
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
        """Whether an answer of these tokens has just ended."""
        if tokens[-1] in ends:
            return Ending("end", 1)
        if len(tokens) >= self.min_new:
            found = [len(stop) for stop in self.stops if list(tokens[-len(stop) :]) == list(stop)]
            if found:
                return Ending("stop", max(found))
            if self.decode is not None and any(text in self.decode(tokens) for text in self.texts):
                return Ending("stop", 0)
        return Ending("length", 0) if len(tokens) >= limit else None


UNTIL_THE_END = Stopping()  # the model's own end token, or the end of its context


@dataclass(frozen=True, kw_only=True)
class Answer:
    """All tokens that were said, the end token or stop sequence included, and the log-probability of each."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: Ending
    score: float  # Σ logprobs; of a beam, divided by length ** length_penalty

    @property
    def body(self) -> tuple[int, ...]:
        """The tokens without the end token or stop sequence; a stop of text is cut from the text, not from here."""
        return self.tokens[: len(self.tokens) - self.ended.tail]
