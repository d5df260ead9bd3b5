"""Seeded random tensors, maxima, and small integer exercises."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

IntegerRows = list[list[int]]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(random: torch.Generator, *shape: int) -> Tensor:
    """Return independent standard normal samples in float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def random_qkv(random: torch.Generator, queries: int, keys: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return standard normal Q (queries, width), K and V (keys, width)."""
    return normal(random, queries, width), normal(random, keys, width), normal(random, keys, width)


def largest(difference: Tensor) -> float:
    """max |x|."""
    return float(difference.detach().abs().max())


def integers(shape: tuple[int, int], values: Sequence[int]) -> Iterator[IntegerRows]:
    """Yield every matrix with these values, smallest absolute sum first."""
    rows, columns = shape
    every = itertools.product(values, repeat=rows * columns)
    for flat in sorted(every, key=lambda numbers: (sum(map(abs, numbers)), numbers)):
        yield [list(flat[r * columns : (r + 1) * columns]) for r in range(rows)]


def tensor(rows: IntegerRows) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def exercise(
    title: str, text: str, *heads: tuple[IntegerRows, IntegerRows, IntegerRows], **more: Any
) -> dict[str, Any]:
    """Return an exercise whose heads have their own Q, K and V: head 1 is before the change, head 2 after it."""
    names = ("Q", "K", "V")
    given = [dict(zip(names, head, strict=True)) for head in heads]
    parts = given[0] if len(given) == 1 else {"heads": given}
    return {"title": title, "text": text, **parts, "scale": "none", **more}
