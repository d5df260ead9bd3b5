"""A family of published models: how to recognise one, its config, and the mapping of its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import Rule, layer_index, skeleton
from glassformer.errors import CheckpointError, ConfigError


class Quantity(NamedTuple):
    """One of our quantities (a tap or a module output) and the module of theirs that returns the same.

    `item` selects from a module with several outputs: Hugging Face attention returns (output, weights), and the whole
    model (`theirs` is empty) returns them by name.
    """

    ours: str
    theirs: str
    item: int | str = 0


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of published models.

    To add one, create a file in `families` and list it in `families/__init__.py`: see docs/checkpoints.md.
    """

    name: str
    types: tuple[str, ...]  # model_type in config.json
    architectures: tuple[str, ...]  # supported classes; others use the weights differently
    model: Callable[[Any], nn.Module]
    config: Callable[[Fields], Any]
    rules: tuple[Rule, ...]
    prefix: str = ""  # prefix that is missing from the names in some files
    aliases: tuple[tuple[str, str], ...] = ()  # (old, usual) parts of names
    skip: tuple[str, ...] = ()  # not weights: masks, counters, tables computed from a formula
    copies: tuple[tuple[str, ...], ...] = ()  # names that may hold the same weight; tied ones are often omitted
    unused: tuple[str, ...] = ()  # weights that are saved but not used, ignored if the model lacks them
    quantities: tuple[Quantity, ...] = ()
    describe: Callable[[Any], dict[str, Any]] | None = None  # our config → config.json; `config` must read it back

    def usual(self, names: Iterable[str]) -> dict[str, str]:
        """Map the usual name of every weight to its name in the file; a name that matches no rule is an error."""
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
                    f"weight {name} does not belong to a model of the family {self.name}",
                    "the file contains weights that the model does not use; nothing was loaded",
                )
            if plain in found:
                raise CheckpointError(f"weights {found[plain]} and {name} are both {plain}", "keep one of them")
            found[plain] = name
        return found

    def _skipped(self, name: str) -> bool:
        return any(
            layer_index(one, name) is not None or layer_index(one, self.prefix + name) is not None for one in self.skip
        )

    def _known(self, name: str) -> bool:
        return any(layer_index(one, name) is not None for one in self._templates.get(skeleton(name), ()))

    @cached_property
    def _templates(self) -> dict[str, list[str]]:
        """All templates of rules and copies, indexed by skeleton because a file may hold very many names."""
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
                raise ConfigError(
                    f"config.json describes a {str(name)[:60]}", f"supported classes of this family: {known}"
                )
