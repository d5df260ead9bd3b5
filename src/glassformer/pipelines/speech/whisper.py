"""Whisper's special tokens and timestamp rules: timestamps come in pairs and never decrease.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022, and the code published with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.decoding import Constraints, Row
from glassformer.errors import ConfigError
from glassformer.models.protocols import SpeechGenerator, require
from glassformer.pipelines.tokenizers import TextTokenizer

TICK = 0.02  # duration of one timestamp step, in seconds


@dataclass(frozen=True, kw_only=True)
class WhisperTokens:
    """Whisper's special tokens. Timestamps are `times`, `times` + 1, …: 0.00 s, 0.02 s, …"""

    start: int
    end: int
    silent: int  # <|notimestamps|>
    never: tuple[int, ...]
    not_first: tuple[int, ...]
    latest_first: int  # maximum of the first timestamp, in ticks
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    nothing: int | None  # <|nospeech|>

    @property
    def times(self) -> int:
        return self.silent + 1

    @property
    def constraints(self) -> Constraints:
        return Constraints(suppress_tokens=self.never, begin_suppress_tokens=self.not_first)


def whisper_tokens(model: nn.Module, words: TextTokenizer) -> WhisperTokens:
    """Read the special tokens from generation_config.json, or config.json for older folders."""
    speech, origin = require(model, "transcribe"), origin_of(model)
    assert isinstance(speech, SpeechGenerator)
    settings: dict[str, Any] = {**(origin.raw if origin else {}), **(origin.generation if origin else {})}
    silent = settings.get("no_timestamps_token_id") or _token(words, "<|notimestamps|>")
    count = speech.vocabulary
    if type(silent) is not int or not 0 <= silent < count - 1:
        raise ConfigError("generation_config.json has no timestamp tokens", "download it again")
    for name, token in (("decoder_start_token_id", speech.start_token), ("eos_token_id", speech.end_token)):
        if not 0 <= token < count:
            raise ConfigError(f"{name}={token} is outside the vocabulary of {count}", "download config.json again")
    latest = settings.get("max_initial_timestamp_index")
    return WhisperTokens(
        start=speech.start_token,
        end=speech.end_token,
        silent=silent,
        never=_tokens(settings.get("suppress_tokens"), count),
        not_first=_tokens(settings.get("begin_suppress_tokens"), count),
        latest_first=latest if type(latest) is int and latest >= 0 else 50,
        languages=_named(settings, "lang_to_id", count),
        tasks=_named(settings, "task_to_id", count),
        nothing=_token(words, "<|nospeech|>") or _token(words, "<|nocaptions|>"),
    )


def _tokens(found: Any, count: int) -> tuple[int, ...]:
    return tuple(i for i in found if type(i) is int and 0 <= i < count) if isinstance(found, list) else ()


def _named(settings: Mapping[str, Any], name: str, count: int) -> dict[str, int]:
    """Return the tokens of a table such as {"<|en|>": 50259}, by their names without brackets."""
    found = settings.get(name) or {}
    if not isinstance(found, dict) or any(type(i) is not int or not 0 <= i < count for i in found.values()):
        raise ConfigError(f"{name} in generation_config.json is not a table of tokens", "download it again")
    return {str(key).strip("<|>"): i for key, i in found.items()}


def _token(words: TextTokenizer, name: str) -> int | None:
    found = words.encode(name, special=False)
    return found[0] if len(found) == 1 else None


class TimestampRules:
    """Logits processor: timestamps come in pairs and never decrease; without `timestamps` none is generated."""

    def __init__(self, tokens: WhisperTokens, *, timestamps: bool) -> None:
        self.tokens, self.timestamps = tokens, timestamps

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        scores = scores.clone()
        if not self.timestamps:
            scores[:, self.tokens.times :] = -math.inf
            return scores
        for one, row in zip(scores, rows, strict=True):
            _keep_time(one, row.answer, self.tokens)
        return scores


def _keep_time(row: Tensor, generated: Sequence[int], tokens: WhisperTokens) -> None:
    """Enforce pairs of timestamps (end of a segment, start of the next) that never decrease, beginning with one."""
    times = tokens.times
    row[tokens.silent] = -math.inf
    last = bool(generated) and generated[-1] >= times
    before = len(generated) < 2 or generated[-2] >= times
    if last and before:
        row[times:] = -math.inf  # a pair is complete: text follows
    elif last:
        row[: tokens.end] = -math.inf  # half a pair: another timestamp, or the end
    given = [token for token in generated if token >= times]
    if given:
        row[times : given[-1] + (0 if last and not before else 1)] = -math.inf
    if not generated:
        row[:times] = -math.inf
        row[times + tokens.latest_first + 1 :] = -math.inf
    likely = row.log_softmax(-1)
    if float(likely[times:].logsumexp(0)) > float(likely[:times].max()):
        row[:times] = -math.inf  # timestamps are together more likely than any text token
