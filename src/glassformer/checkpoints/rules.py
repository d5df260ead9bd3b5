"""encoder.3.attention.WQ.weight ↔ bert.encoder.layer.3.attention.self.query.weight: which weight of ours is which.

A rule holds for every layer (`{i}`) and in both directions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from glassformer.checkpoints.layouts import Layout, Same

SAME = Same()


@dataclass(frozen=True)
class Rule:
    """Weights `ours` are weights `theirs` in a layout. `a|b` in theirs: the first that is in the file."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    layout: Layout = SAME


def same(ours: str, theirs: str, layout: Layout = SAME) -> Rule:
    """One weight for one."""
    return Rule((ours,), (theirs,), layout)


def linear(ours: str, theirs: str, layout: Layout = SAME) -> tuple[Rule, ...]:
    """W and b; a model without b has no use for the second."""
    return same(f"{ours}.weight", _each(theirs, ".weight"), layout), same(f"{ours}.bias", _each(theirs, ".bias"))


def norm(ours: str, theirs: str) -> tuple[Rule, ...]:
    """γ and β."""
    return same(f"{ours}.gamma", _each(theirs, ".weight")), same(f"{ours}.beta", _each(theirs, ".bias"))


def _each(alternatives: str, ending: str) -> str:
    return "|".join(name + ending for name in alternatives.split("|"))


@cache
def pattern(template: str) -> re.Pattern[str]:
    """A template as a regular expression with the layer's number as its group; `*` stands for any part of a name."""
    text = re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)", 1).replace(r"\{i\}", r"(?P=i)").replace(r"\*", r".*")
    return re.compile(text)


def layer(template: str, name: str) -> str | None:
    """The layer's number if the name fits the template: '' if the template has none, None if it does not fit."""
    found = pattern(template).fullmatch(name)
    if found is None:
        return None
    return found["i"] if "i" in found.groupdict() else ""


def fill(template: str, i: str) -> str:
    return template.replace("{i}", i)


def skeleton(name: str) -> str:
    """A name or a template with every number as #: only templates with a name's skeleton can fit it."""
    return re.sub(r"\d+|\{i\}", "#", name)
