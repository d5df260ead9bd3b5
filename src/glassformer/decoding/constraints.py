"""score = −∞ for tokens that may not follow: the constraints of generation_config.json, under their usual names.

They are applied to logits when sampling and to log-probabilities in beam search, as in Hugging Face's `generate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.decoding.sampling import ban, require_tokens
from glassformer.errors import ConfigError


class Row(NamedTuple):
    """One sequence of a batch: its prefix, its answer so far, and the maximum length of the answer."""

    prefix: Sequence[int]
    answer: Sequence[int]
    limit: int


LogitsProcessor = Callable[[Tensor, Sequence[Row]], Tensor]
"""Scores (b, v) and the sequences they continue in, changed scores out."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints on the next token. `min_length` and n-grams also count the prefix, as in Hugging Face."""

    no_repeat_ngram_size: int = 0
    bad_words: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token: int | None = None
    forced_eos_token: int | None = None
    min_length: int = 0
    ends: tuple[int, ...] = ()  # end tokens suppressed until `min_length`

    def __post_init__(self) -> None:
        for name in ("no_repeat_ngram_size", "min_length"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}", "choose 0 (none) or more")
        forced = [token for token in (self.forced_bos_token, self.forced_eos_token) if token is not None]
        for name, tokens in (
            ("suppress_tokens", self.suppress_tokens),
            ("begin_suppress_tokens", self.begin_suppress_tokens),
            ("a forced token", tuple(forced)),
            *(("a bad word", word) for word in self.bad_words),
        ):
            require_tokens(name, tokens)
        if not all(self.bad_words):
            raise ConfigError("a bad word has 0 tokens", "leave it out")

    @property
    def tokens(self) -> set[int]:
        """All token ids that occur in the constraints."""
        forced = {self.forced_bos_token, self.forced_eos_token} - {None}
        named = {token for word in self.bad_words for token in word}
        return named | set(self.suppress_tokens) | set(self.begin_suppress_tokens) | {int(t or 0) for t in forced}

    @property
    def always_banned(self) -> set[int]:
        return {word[0] for word in self.bad_words if len(word) == 1} | set(self.suppress_tokens)

    def __bool__(self) -> bool:
        return self != Constraints(ends=self.ends)

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        if not self:
            return scores
        scores = ban(scores, self.always_banned)
        banned = [self._banned(row) for row in rows]
        if any(banned):
            mask = torch.zeros(scores.shape, dtype=torch.bool)
            for i, tokens in enumerate(banned):
                mask[i, sorted(tokens)] = True
            scores = scores.masked_fill(mask.to(scores.device), -math.inf)
        forced = [self._forced(row) for row in rows]
        for i, token in enumerate(forced):
            if token is not None:
                only = torch.full_like(scores[i], -math.inf)
                only[token] = 0.0
                scores = torch.cat([scores[:i], only[None], scores[i + 1 :]])
        return scores

    def _banned(self, row: Row) -> set[int]:
        whole = [*row.prefix, *row.answer]
        found = set(_repeats(whole, self.no_repeat_ngram_size))
        found |= {word[-1] for word in self.bad_words if 1 < len(word) <= len(whole) + 1 and _ends(whole, word[:-1])}
        if len(row.answer) == (1 if self.forced_bos_token is not None and len(row.prefix) == 1 else 0):
            found |= set(self.begin_suppress_tokens)
        if len(whole) < self.min_length:
            found |= set(self.ends)
        return found

    def _forced(self, row: Row) -> int | None:
        if self.forced_bos_token is not None and len(row.prefix) + len(row.answer) == 1:
            return self.forced_bos_token
        return self.forced_eos_token if len(row.answer) == row.limit - 1 else None


def _ends(whole: Sequence[int], tail: Sequence[int]) -> bool:
    return list(whole[len(whole) - len(tail) :]) == list(tail)


def _repeats(whole: Sequence[int], n: int) -> Iterable[int]:
    """Return the tokens that would repeat an n-gram already present."""
    if not n or len(whole) + 1 < n:
        return
    tail = list(whole[len(whole) - n + 1 :]) if n > 1 else []
    for i in range(len(whole) - n + 1):
        if list(whole[i : i + n - 1]) == tail:
            yield whole[i + n - 1]


def apply_processors(
    scores: Tensor, processors: Sequence[LogitsProcessor], rows: Callable[[], Sequence[Row]]
) -> Tensor:
    """Apply all processors in order; `rows` is called only if there is at least one."""
    if processors:
        given = rows()
        for process in processors:
            scores = process(scores, given)
    return scores
