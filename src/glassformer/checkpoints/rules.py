"""encoder.3.attention.WQ.weight ↔ bert.encoder.layer.3.attention.self.query.weight: mapping of weight names.

A rule applies to every layer (`{i}`) and in both directions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from glassformer.checkpoints.layouts import Layout, Same

SAME = Same()


@dataclass(frozen=True)
class Rule:
    """Maps the weights `ours` to `theirs` by a layout. `a|b` in `theirs` means the first that is in the file."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    layout: Layout = SAME


def same(ours: str, theirs: str, layout: Layout = SAME) -> Rule:
    """Return a rule that maps one weight to one weight."""
    return Rule((ours,), (theirs,), layout)


def linear(ours: str, theirs: str, layout: Layout = SAME) -> tuple[Rule, ...]:
    """Return the rules for W and b; a model without b does not use the second."""
    return same(f"{ours}.weight", _each(theirs, ".weight"), layout), same(f"{ours}.bias", _each(theirs, ".bias"))


def norm(ours: str, theirs: str) -> tuple[Rule, ...]:
    """Return the rules for γ and β."""
    return same(f"{ours}.gamma", _each(theirs, ".weight")), same(f"{ours}.beta", _each(theirs, ".bias"))


def _each(alternatives: str, ending: str) -> str:
    return "|".join(name + ending for name in alternatives.split("|"))


@cache
def pattern(template: str) -> re.Pattern[str]:
    """Compile a template to a regular expression with the layer index as a group; `*` matches any part of a name."""
    text = re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)", 1).replace(r"\{i\}", r"(?P=i)").replace(r"\*", r".*")
    return re.compile(text)


def layer_index(template: str, name: str) -> str | None:
    """Return the layer index of a name that matches the template ('' if the template has none), or None."""
    found = pattern(template).fullmatch(name)
    if found is None:
        return None
    return found["i"] if "i" in found.groupdict() else ""


def fill(template: str, i: str) -> str:
    return template.replace("{i}", i)


def skeleton(name: str) -> str:
    """Replace every number in a name or template with #: a name matches only templates with the same skeleton."""
    return re.sub(r"\d+|\{i\}", "#", name)
