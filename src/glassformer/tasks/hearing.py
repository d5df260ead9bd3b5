"""30 s of sound → logits of the next token, with what Whisper's transcripts obey: times in pairs, never backwards.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022, and the code published with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints import origin_of
from glassformer.errors import ConfigError, InputError
from glassformer.models import Whisper
from glassformer.models.seq2seq import Memory
from glassformer.tasks.tokenize import Words

TICK = 0.02  # seconds of a time token


@dataclass(frozen=True, kw_only=True)
class Codes:
    """The tokens that are not words. Times are `times`, `times` + 1, …: 0.00 s, 0.02 s, …"""

    start: int
    end: int
    silent: int  # <|notimestamps|>
    never: tuple[int, ...]
    not_first: tuple[int, ...]
    latest_first: int  # the first time may be at most so many ticks
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    nothing: int | None  # <|nospeech|>

    @property
    def times(self) -> int:
        return self.silent + 1


def codes_of(model: Whisper, words: Words) -> Codes:
    """From generation_config.json, or config.json of older folders."""
    origin = origin_of(model)
    said: dict[str, Any] = {**(origin.raw if origin else {}), **(origin.generation if origin else {})}
    silent = said.get("no_timestamps_token_id") or _token(words, "<|notimestamps|>")
    if type(silent) is not int:
        raise ConfigError("the model's folder names no token for times", "get its generation_config.json")
    strip = lambda table: {str(name).strip("<|>"): i for name, i in (table or {}).items() if type(i) is int}
    return Codes(
        start=model.config.start,
        end=model.config.end,
        silent=silent,
        never=_tokens(said.get("suppress_tokens")),
        not_first=_tokens(said.get("begin_suppress_tokens")),
        latest_first=int(said.get("max_initial_timestamp_index") or 50),
        languages=strip(said.get("lang_to_id")),
        tasks=strip(said.get("task_to_id")),
        nothing=_token(words, "<|nospeech|>") or _token(words, "<|nocaptions|>"),
    )


def _tokens(found: Any) -> tuple[int, ...]:
    return tuple(i for i in found if type(i) is int and i >= 0) if isinstance(found, list) else ()


def _token(words: Words, name: str) -> int | None:
    found = words.encode(name, special=False)
    return found[0] if len(found) == 1 else None


class Listener:
    """A speaker (see `decoding.Speaker`) whose prompts are frames (t, bands) of windows, all equally long."""

    def __init__(self, model: Whisper, codes: Codes, begin: Sequence[int], *, timed: bool) -> None:
        self.model, self.codes, self.timed = model, codes, timed
        self.begin = torch.tensor(list(begin))
        self.vocabulary = model.config.target.vocabulary
        self.context: int | None = model.config.length
        self.ends: tuple[int, ...] = (codes.end,)
        self.nothing: list[float] = []  # how likely each window holds no speech

    def beginning(self, prompt: Tensor) -> Tensor:
        if prompt.dim() != 2:
            raise InputError(f"frames of shape {tuple(prompt.shape)}", "give (frames, bands)")
        return self.begin

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            self.memory: Memory = self.model.encode(torch.stack(list(prompts)).to(device))
        self.said: list[list[int]] = [[] for _ in prompts]
        self.cache = self.model.cache(len(self.begin) + room)
        return self._logits(self.begin.to(device).expand(len(prompts), -1))

    def step(self, tokens: Tensor) -> Tensor:
        for row, token in zip(self.said, tokens.tolist(), strict=True):
            row.append(token)
        return self._logits(tokens.to(self.memory.X.device)[:, None])

    def reorder(self, rows: Tensor) -> None:
        self.said = [list(self.said[i]) for i in rows.tolist()]
        rows = rows.to(self.memory.X.device)
        self.memory = Memory(self.memory.X[rows], None)
        for block in self.cache:
            block.own.reorder(rows)
            block.memory.reorder(rows)

    def _logits(self, tokens: Tensor) -> Tensor:
        with torch.inference_mode():
            logits = self.model.decode(tokens, self.memory, cache=self.cache).float()
        if self.codes.nothing is not None and not any(self.said):
            first = int((tokens[0] == self.codes.start).nonzero()[0])
            self.nothing = logits[:, first].softmax(-1)[:, self.codes.nothing].tolist()
        logits = logits[:, -1].clone()
        logits[:, list(self.codes.never)] = -math.inf
        if not self.timed:
            logits[:, self.codes.times :] = -math.inf
        for row, said in zip(logits, self.said, strict=True):
            if not said:
                row[list(self.codes.not_first)] = -math.inf
            if self.timed:
                _keep_time(row, said, self.codes)
        return logits


def _keep_time(row: Tensor, said: Sequence[int], codes: Codes) -> None:
    """Times come in pairs (the end of a piece, the start of the next) and never go back; the first comes first."""
    times = codes.times
    row[codes.silent] = -math.inf
    last = bool(said) and said[-1] >= times
    before = len(said) < 2 or said[-2] >= times
    if last and before:
        row[times:] = -math.inf  # a pair is complete: words follow
    elif last:
        row[: codes.end] = -math.inf  # half a pair: another time, or the end
    told = [token for token in said if token >= times]
    if told:
        row[times : told[-1] + (0 if last and not before else 1)] = -math.inf
    if not said:
        row[:times] = -math.inf
        row[times + codes.latest_first + 1 :] = -math.inf
    likely = row.log_softmax(-1)
    if float(likely[times:].logsumexp(0)) > float(likely[:times].max()):
        row[:times] = -math.inf  # some time is likelier than any word
