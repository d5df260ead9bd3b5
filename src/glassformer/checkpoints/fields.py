"""Validated access to config.json: each field has the right type, and no size exceeds what the weights allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.nn.feedforward import Activation

DEEPEST = 1000  # layers; far more than any published model has

# names of the activations in published configs
ACTIVATION_NAMES: dict[str, Activation] = {
    **{name: name for name in get_args(Activation)},
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python": "gelu",
    "swish": "silu",
}
PUBLISHED_ACTIVATIONS: dict[Activation, str] = {"gelu_tanh": "gelu_new"}  # where Hugging Face's name differs from ours


@dataclass(frozen=True)
class Fields:
    """The fields of config.json (`raw`), validated against the weights of the file.

    `shapes` holds the weight shapes by usual name, and `read` returns one weight. Sizes are checked against the file:
    a width, vocabulary size or number of heads appears in some weight, so it cannot exceed the count of all numbers.
    """

    raw: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]

    @property
    def architecture(self) -> str:
        """The class that was saved, e.g. BertForMaskedLM; empty if config.json does not name one."""
        names = self.raw.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @property
    def numbers(self) -> int:
        """The total count of numbers in the file."""
        return sum(map(math.prod, self.shapes.values()))

    def has(self, *names: str) -> bool:
        """Return whether the file holds at least one of these weights."""
        return any(name in self.shapes for name in names)

    def size(self, name: str, default: int | None = None) -> int:
        """Return a positive integer, bounded by the count of numbers in the file."""
        return self._whole(name, default, self.numbers, "no size exceeds the count of numbers")

    def depth(self, name: str, default: int | None = None) -> int:
        most = min(len(self.shapes), DEEPEST)
        return self._whole(name, default, most, f"every layer has weights, and {DEEPEST} layers are the limit")

    def count(self, name: str, default: int | None = None) -> int:
        """Return a positive integer that appears in no weight shape, such as a length or distance."""
        return self._whole(name, default, 2**31, "is the limit")

    def optional_count(self, name: str) -> int | None:
        """Like `count`, but None if the field is null or absent."""
        return None if self.raw.get(name) is None else self.count(name)

    def pair(self, name: str, default: int | None = None) -> tuple[int, int]:
        """Return (rows, columns); a single number stands for both."""
        value = self._get(name, default)
        both = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
        rows, columns = (replace(self, raw={name: one}).count(name) for one in both)
        return rows, columns

    def part(self, name: str) -> Fields:
        """Return a config nested in config.json."""
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is {_short(value)} in config.json", "it must be a JSON object")
        return replace(self, raw=value)

    def _whole(self, name: str, default: int | None, most: int, unit: str) -> int:
        value = self._get(name, default)
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {_short(value)} in config.json", "it must be a whole number of at least 1")
        if value > most:
            file = f"the file holds {self.numbers} numbers in {len(self.shapes)} weights"
            raise ConfigError(f"{name} is {value} in config.json, and {file}", f"they do not belong together; {unit}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{name} is {_short(value)} in config.json", "it must be a finite number")
        return float(value)

    def token(self, name: str, default: int) -> int:
        """Return a token id; the first if config.json lists several."""
        value = self._get(name, default)
        if isinstance(value, list) and value:
            value = value[0]
        if type(value) is not int:
            raise ConfigError(f"{name} is {_short(value)} in config.json", "it must be a token id")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {_short(value)} in config.json", "it must be true or false")
        return value

    def activation(self, name: str, default: str) -> Activation:
        value = self._get(name, default)
        if not isinstance(value, str) or value not in ACTIVATION_NAMES:
            raise ConfigError(f"{name} is {_short(value)} in config.json", f"supported: {', '.join(ACTIVATION_NAMES)}")
        return ACTIVATION_NAMES[value]

    def only(self, name: str, *supported: Any) -> None:
        """Require that a feature is absent or has one of the supported values."""
        value = self.raw.get(name)
        if value is not None and value not in supported:
            known = ", ".join(map(repr, supported)) or "its absence"
            raise ConfigError(f"{name} is {_short(value)} in config.json", f"supported: {known}")

    def tied(self, head: str, table: str, *, default: bool) -> bool:
        """Return whether the head is tied to the table: as in config.json, unless the file holds two different ones."""
        return self.flag("tie_word_embeddings", default) and self.same(head, table)

    def same(self, one: str, other: str) -> bool:
        """Return whether two names hold the same numbers. A name that is not in the file equals any other."""
        if one not in self.shapes or other not in self.shapes:
            return True
        return self.shapes[one] == self.shapes[other] and torch.equal(self.read(one), self.read(other))

    def _get(self, name: str, default: Any) -> Any:
        value = self.raw.get(name)
        value = default if value is None else value
        if value is None:
            raise ConfigError(f"config.json has no {name}", "download the config.json of these weights")
        return value


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "…"
