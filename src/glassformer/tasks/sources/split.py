"""part(key) = where sha256(key) / 2²⁵⁶ falls: the same everywhere, for ever, whatever else is in the data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")


def fraction(key: str | bytes) -> float:
    """A number in [0, 1] that the key alone decides."""
    data = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") / 2**64


def part_of(key: str | bytes, *, valid: float, test: float) -> Part:
    """Things of one key go to one part: a repeated picture or sentence is never in two."""
    place = fraction(key)
    if place < test:
        return "test"
    return "valid" if place < test + valid else "train"


def plain(sentence: str) -> str:
    """What a sentence says, whatever its capitals and marks: `Hi!` and `Hi.` are one key."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def chosen(keys: Iterable[str]) -> list[str]:
    """The keys in an order by hash: the first n are a sample that does not depend on the order they came in."""
    return sorted(set(keys), key=lambda key: (fraction(f"chosen {key}"), key))
