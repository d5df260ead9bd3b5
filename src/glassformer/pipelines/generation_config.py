"""generation_config.json: decoding parameters of a published model, with each key either supported or rejected.

Sampling parameters are not taken from the file: `do_sample`, `temperature`, `top_k`, `top_p`, `min_p` and the other
keys that only matter when sampling are arguments of `generate`, whose default is greedy decoding or the file's beam
search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.decoding import Constraints
from glassformer.decoding.beam import EarlyStopping
from glassformer.errors import ConfigError

FILE = "generation_config.json"
MOST_BEAMS = 64
LONGEST = 1_000_000  # maximum tokens of an answer
MOST_WORDS = 100_000  # maximum tokens of all bad words together

# keys that would change the output but are not implemented, with their neutral values
REFUSED: dict[str, tuple[Any, ...]] = {
    "constraints": (None,),
    "diversity_penalty": (None, 0, 0.0),
    "dola_layers": (None,),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None,),
    "forced_decoder_ids": (None,),
    "guidance_scale": (None, 1, 1.0),
    "max_time": (None,),
    "num_beam_groups": (None, 1),
    "num_return_sequences": (None, 1),
    "penalty_alpha": (None, 0, 0.0),
    "sequence_bias": (None,),
    "token_healing": (None, False),
    "watermarking_config": (None,),
}


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """The supported keys of generation_config.json; None where the file does not set them."""

    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    renormalize: bool = False
    repetition_penalty: float = 1.0
    max_length: int | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    start: int | None = None
    ends: tuple[int, ...] | None = None
    rules: Constraints = field(default_factory=Constraints)

    def new_tokens(self, prefix: int) -> int | None:
        """Return the limit of new tokens after `prefix` tokens; `max_new_tokens` takes precedence over `max_length`."""
        if self.max_new_tokens is not None or self.max_length is None:
            return self.max_new_tokens
        return self.max_length - prefix

    def constraints(self, ends: tuple[int, ...]) -> Constraints:
        """Return the constraints; `min_length` suppresses these end tokens."""
        return replace(self.rules, ends=ends) if self.rules.min_length else self.rules


def generation_config_of(model: nn.Module) -> GenerationConfig:
    """Read generation_config.json, or config.json for folders without one."""
    origin = origin_of(model)
    if origin is None:
        return GenerationConfig()
    given = origin.generation or origin.raw
    ends = origin.generation.get("eos_token_id", origin.raw.get("eos_token_id"))
    start = origin.generation.get("decoder_start_token_id", origin.raw.get("decoder_start_token_id"))
    return parse_generation_config(dict(given) | {"eos_token_id": ends, "decoder_start_token_id": start})


def parse_generation_config(raw: Mapping[str, Any]) -> GenerationConfig:
    """Validate every key; unsupported keys that would change the output are rejected by name."""
    for name, neutral in REFUSED.items():
        if name in raw and not any(raw[name] == value for value in neutral):
            remedy = "this is not supported; remove it from the file"
            raise ConfigError(f"{name} is {str(raw[name])[:60]} in {FILE}", remedy)
    if raw.get("min_new_tokens") is not None:  # then Hugging Face ignores min_length
        raw = {**raw, "min_length": None}
    read = _Reader(raw)
    ends = read.tokens("eos_token_id", one=True)
    return GenerationConfig(
        num_beams=read.whole("num_beams", 1, low=1, high=MOST_BEAMS),
        length_penalty=read.number("length_penalty", 1.0),
        early_stopping=read.choice("early_stopping", (True, False, "never"), False),
        renormalize=bool(read.choice("renormalize_logits", (True, False), False)),
        repetition_penalty=read.number("repetition_penalty", 1.0, positive=True),
        max_length=read.whole("max_length", 0, low=0, high=LONGEST) or None,
        max_new_tokens=read.whole("max_new_tokens", 0, low=0, high=LONGEST) or None,
        min_new_tokens=read.whole("min_new_tokens", 0, low=0, high=LONGEST),
        stop=read.texts("stop_strings"),
        start=read.token("decoder_start_token_id"),
        ends=ends or None,
        rules=Constraints(
            no_repeat_ngram_size=read.whole("no_repeat_ngram_size", 0, low=0, high=LONGEST),
            bad_words=read.words("bad_words_ids"),
            suppress_tokens=read.tokens("suppress_tokens"),
            begin_suppress_tokens=read.tokens("begin_suppress_tokens"),
            forced_bos_token=read.token("forced_bos_token_id"),
            forced_eos_token=read.token("forced_eos_token_id"),
            min_length=read.whole("min_length", 0, low=0, high=LONGEST),
        ),
    )


class _Reader:
    """Typed access to values by key; None is treated as a missing key."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def _refuse(self, name: str, remedy: str) -> ConfigError:
        return ConfigError(f"{name} is {str(self.raw[name])[:60]} in {FILE}", remedy)

    def whole(self, name: str, default: int, *, low: int, high: int) -> int:
        value = self.raw.get(name)
        if value is None:
            return default
        if type(value) is not int or not low <= value <= high:
            raise self._refuse(name, f"it must be a whole number from {low} to {high}")
        return value

    def number(self, name: str, default: float, *, positive: bool = False) -> float:
        value = self.raw.get(name)
        if value is None:
            return default
        if type(value) not in (int, float) or not math.isfinite(value) or (positive and value <= 0):
            raise self._refuse(name, "it must be a finite number" + (" above 0" if positive else ""))
        return float(value)

    def choice(self, name: str, choices: tuple[Any, ...], default: Any) -> Any:
        value = self.raw.get(name)
        if value is None:
            return default
        if not any(value is one or (isinstance(value, str) and value == one) for one in choices):
            raise self._refuse(name, f"it must be one of {', '.join(map(str, choices))}")
        return value

    def token(self, name: str) -> int | None:
        value = self.raw.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise self._refuse(name, "it must be a token id")
        return value

    def tokens(self, name: str, *, one: bool = False) -> tuple[int, ...]:
        value = self.raw.get(name)
        values = [value] if one and type(value) is int else [] if value is None else value
        if not isinstance(values, list) or len(values) > MOST_WORDS or any(type(token) is not int for token in values):
            raise self._refuse(name, "it must be a list of token ids")
        return tuple(token for token in values if token >= 0)  # −1 means none

    def words(self, name: str) -> tuple[tuple[int, ...], ...]:
        value = self.raw.get(name) or []
        lists = isinstance(value, list) and all(isinstance(word, list) and word for word in value)
        if not lists or any(type(token) is not int or token < 0 for word in value for token in word):
            raise self._refuse(name, "it must be a list of lists of token ids")
        if sum(map(len, value)) > MOST_WORDS:
            raise ConfigError(f"{name} in {FILE} has more than {MOST_WORDS:,} tokens", "shorten it")
        return tuple(tuple(word) for word in value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw.get(name)
        values = [value] if isinstance(value, str) else value or []
        if not isinstance(values, list) or not all(isinstance(text, str) and text for text in values):
            raise self._refuse(name, "it must be a text or a list of texts")
        return tuple(values)
