"""A family of published models: how to recognise one, what our config for it is, and which weight is which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import Rule, layer, skeleton
from glassformer.errors import CheckpointError, ConfigError


class Quantity(NamedTuple):
    """A quantity of ours (a tap, or what a module gives) and the module of theirs that gives the same.

    `item` picks from a module that gives several: Hugging Face's attention gives (output, weights), and the whole
    model (theirs is empty) gives them by name.
    """

    ours: str
    theirs: str
    item: int | str = 0


@dataclass(frozen=True, kw_only=True)
class Family:
    """Adding one is a file in `families` and its line in `families/__init__.py`: see docs/checkpoints.md."""

    name: str
    types: tuple[str, ...]  # model_type in config.json
    architectures: tuple[str, ...]  # the classes whose weights these are; others do something else with them
    model: Callable[[Any], nn.Module]
    config: Callable[[Fields], Any]
    rules: tuple[Rule, ...]
    prefix: str = ""  # which the names of some files lack
    aliases: tuple[tuple[str, str], ...] = ()  # (old, usual) part of a name
    skip: tuple[str, ...] = ()  # not weights: masks, counters, tables that follow from a formula
    copies: tuple[tuple[str, ...], ...] = ()  # names that may hold the same weight; tied ones are often left out
    unused: tuple[str, ...] = ()  # weights that a class saves and makes no use of, when the model has no place for them
    quantities: tuple[Quantity, ...] = ()

    def usual(self, names: Iterable[str]) -> dict[str, str]:
        """usual name → the name in the file, for every weight; a name that no rule knows is an error."""
        found: dict[str, str] = {}
        for name in names:
            plain = name
            for old, usual in self.aliases:
                plain = plain.replace(old, usual)
            if self._skipped(plain):
                continue
            if not self._known(plain) and self._known(self.prefix + plain):
                plain = self.prefix + plain
            if not self._known(plain):
                raise CheckpointError(
                    f"weight {name} has no place in a model of the family {self.name}",
                    "the file holds more than the model uses; nothing was loaded",
                )
            if plain in found:
                raise CheckpointError(f"weights {found[plain]} and {name} are both {plain}", "keep one of them")
            found[plain] = name
        return found

    def _skipped(self, name: str) -> bool:
        return any(layer(one, name) is not None or layer(one, self.prefix + name) is not None for one in self.skip)

    def _known(self, name: str) -> bool:
        return any(layer(one, name) is not None for one in self._templates.get(skeleton(name), ()))

    @cached_property
    def _templates(self) -> dict[str, list[str]]:
        """Every name that a rule or a copy has, by its skeleton: a file may hold very many names."""
        found: dict[str, list[str]] = {}
        rules = (one for rule in self.rules for names in rule.theirs for one in names.split("|"))
        for template in (*rules, *(one for group in self.copies for one in group)):
            found.setdefault(skeleton(template), []).append(template)
        return found

    def require_architecture(self, raw: Mapping[str, Any]) -> None:
        names = raw.get("architectures") or []
        if not isinstance(names, list):
            raise ConfigError(f"architectures is {str(names)[:60]!r} in config.json", "it must list names of classes")
        for name in names:
            if name not in self.architectures:
                known = ", ".join(self.architectures)
                raise ConfigError(f"config.json describes a {str(name)[:60]}", f"of this family are supported: {known}")
