"""`certify(build(shift(2), 12))`: build a behaviour, measure how exact it is as β grows, plant it in a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor

from glassformer.errors import ShapeError
from glassformer.lens.codes import CODES
from glassformer.lens.constructed import Constructed, build
from glassformer.lens.edit import Edit, at_heads, edit
from glassformer.lens.kernels import NAMES, named_kernel, read_kernel
from glassformer.lens.routing import (
    EDGES,
    Edges,
    Routing,
    Size,
    convolution,
    identity,
    permutation,
    previous_token,
    shift,
)
from glassformer.lens.trace import trace

__all__ = [
    "BETAS",
    "CODES",
    "EDGES",
    "NAMES",
    "Certificate",
    "Constructed",
    "Edges",
    "Line",
    "Routing",
    "build",
    "certify",
    "convolution",
    "identity",
    "named_kernel",
    "permutation",
    "plant",
    "previous_token",
    "read_kernel",
    "shift",
]

BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class Line(NamedTuple):
    """At one β: the most weight that misses its target, max |O − target|, and the bounds on both."""

    beta: float
    missed: float
    missed_bound: float
    error: float
    error_bound: float


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Measured against proven, on random tokens with max |V| = `largest`; float64 rounds to about `rounding`."""

    name: str
    size: tuple[int, ...]
    channels: tuple[int, int]
    edges: str
    code: str
    heads: int
    keys: int
    gap: float
    norm: float
    largest: float
    rounding: float
    lines: list[Line]
    tolerance: float
    beta_needed: float

    @property
    def holds(self) -> bool:
        """Every measured number is within its bound, but for rounding."""
        return all(
            line.error <= line.error_bound + self.rounding and line.missed <= line.missed_bound + self.rounding
            for line in self.lines
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.facts()
        table = Table("β", "missed", "bound", "max |O − target|", "bound", box=None, header_style="bold")
        for line in self.lines:
            table.add_row(f"{line.beta:g}", *(f"{x:.3g}" for x in line[1:]))
        yield table
        yield f"every measured number is within its bound: {'yes' if self.holds else 'NO'}"
        yield f"for an error below {self.tolerance:g}: β ≥ {self.beta_needed:.4g}"

    def facts(self) -> Iterator[str]:
        size = " × ".join(map(str, self.size))
        ins, outs = self.channels
        yield f"{self.name}: {size} tokens, {ins} → {outs} channels, {self.edges} edges"
        yield f"{self.heads} head(s), {self.code} codes, {self.keys} keys, gap {self.gap:.4g}, ‖C‖ {self.norm:.4g}"


@torch.no_grad()
def certify(
    made: Constructed, betas: Sequence[float] = BETAS, *, tolerance: float = 1e-6, batch: int = 8, seed: int = 0
) -> Certificate:
    """max |O − target| on random tokens in [−1, 1] for each β, and the bound that `constructed` derives."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(batch, prod(made.size), made.routing.channels[0], dtype=torch.float64, generator=generator) * 2 - 1
    largest = float(X.abs().max())
    target = made.target(X)
    lines = []
    for beta in betas:
        with edit(made, "attention.beta", beta):
            error = float((made(X) - target).abs().max())
            missed = measured_miss(made, X[:1])
        lines.append(Line(beta, missed, made.missed(beta), error, made.bound(beta, largest)))
    # each output adds heads · channels · keys products, each right to one part in 2⁵²
    sums = made.routing.heads * made.routing.channels[0] + made.keys
    return Certificate(
        name=made.routing.name,
        size=made.size,
        channels=made.routing.channels,
        edges=made.routing.edges,
        code=made.kind,
        heads=made.routing.heads,
        keys=made.keys,
        gap=made.gap,
        norm=made.norm,
        largest=largest,
        rounding=float(torch.finfo(torch.float64).eps) * sums * max(1.0, largest * made.norm),
        lines=lines,
        tolerance=tolerance,
        beta_needed=made.beta_for(tolerance, largest),
    )


def measured_miss(made: Constructed, X: Tensor) -> float:
    """max over heads and queries of the weight on keys that are not the target."""
    with trace(made, "attention.A") as run:
        made(X)
    A = run["attention.A"][0]
    return float(A.masked_fill(made.targets, 0).sum(-1).max())


def plant(routing: Routing, *heads: int, size: Size | None = None, prefix: int = 0, beta: float = 30.0) -> Edit:
    """An edit of S that makes those heads do it: S + β + log A on the targets, after `prefix` tokens (CLS).

    Queries that look at nothing keep their scores. `size` is the grid, which a length alone does not tell.
    """

    def change(S: Tensor) -> Tensor:
        t, s = S.shape[-2:]
        if t != s:
            raise ShapeError(f"{t} queries and {s} keys", "plant where a sequence attends to itself")
        ideal = routing.ideal(s - prefix if size is None else size).to(S)
        bonus = torch.zeros(s, s, dtype=S.dtype, device=S.device)
        bonus[prefix:, prefix:] = torch.where(ideal > 0, beta + ideal.log(), 0)
        return S + bonus

    return at_heads(change, *heads)
