"""part(key) = where sha256(key) / 2²⁵⁶ falls: a reproducible split, independent of the rest of the data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")


def fraction(key: str | bytes) -> float:
    """Return a number in [0, 1] that depends only on the key."""
    data = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") / 2**64


def part_of(key: str | bytes, *, valid: float, test: float) -> Part:
    """Return the part of a key. Equal keys share a part, so a repeated image or sentence is never in two."""
    place = fraction(key)
    if place < test:
        return "test"
    return "valid" if place < test + valid else "train"


def plain(sentence: str) -> str:
    """Normalise a sentence by removing case and punctuation: `Hi!` and `Hi.` have the same key."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def chosen(keys: Iterable[str]) -> list[str]:
    """Sort keys by hash: the first n are a sample that does not depend on the input order."""
    return sorted(set(keys), key=lambda key: (fraction(f"chosen {key}"), key))
