"""d = mean over queries of ½‖A_t − I_t‖²: the distance of each head of a model to a constructed head, whose A is I.

0 means identical attention; 1 means that each attends to one key, and these keys differ. The null permutes the head's
own weights randomly over the allowed keys (see `head_null`):
    E = ½(Σa² + ΣI²) − Σa ΣI / n,    Var = Σ(a − ā)² Σ(I − Ī)² / (n − 1).
`relative` = d / E: 1 is no nearer than by chance. Queries for which the constructed head attends to nothing,
or to a masked key, do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor, nn

from glassformer.errors import InputError, ShapeError
from glassformer.lens.head_null import AttentionRows, RowStatistics, Score, Tally
from glassformer.lens.heads import own_weights, query_blocks, score_paths
from glassformer.lens.routing import Routing, Size
from glassformer.lens.trace import Run, trace


class Near(NamedTuple):
    """The distance between a head and one head of the construct (`part`)."""

    path: str
    head: int
    part: int
    distance: Score

    @property
    def relative(self) -> float:
        return self.distance.value / self.distance.null if self.distance.null > 0 else 1.0

    @property
    def z(self) -> float:
        """The number of standard deviations by which the head is nearer than by chance."""
        return -self.distance.z


@dataclass(frozen=True)
class NearTable:
    """Distances of heads to a construct, nearest first."""

    name: str
    offsets: tuple[tuple[int, ...], ...]
    rows: list[Near]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(
            "layer", "head", "part", "distance", "by chance", "relative", "z", box=None, header_style="bold",
            title=f"nearest to {self.name}", title_justify="left",
        )  # fmt: skip
        for near in self.rows:
            d = near.distance
            part = "all" if len(self.offsets) == 1 else str(self.offsets[near.part])
            numbers = (f"{d.value:.4f}", f"{d.null:.4f}", f"{near.relative:.3f}", f"{near.z:.1f}")
            table.add_row(near.path.removesuffix(".A"), str(near.head), part, *numbers)
        yield table


class Nearness:
    """Accumulates the distances of every head to every head of a construct over runs."""

    def __init__(self, routing: Routing, *, size: Size | None = None, prefix: int = 0) -> None:
        if routing.dims > 1 and size is None:
            raise InputError(f"{routing.name} needs a grid", "give size=(rows, columns)")
        self.routing, self.size, self.prefix = routing, size, prefix
        self._tallies: dict[tuple[str, int], Tally] = {}

    def add(self, run: Run, real: Tensor | None = None) -> None:
        for path in own_weights(run):
            ideals: dict[int, list[Tensor]] = {}
            for rows in query_blocks(run, path, real):
                s = rows.A.shape[-1]
                if s not in ideals:
                    ideals[s] = [self._ideal(s, part) for part in range(self.routing.heads)]
                for part, ideal in enumerate(ideals[s]):
                    found = distance(rows, ideal[rows.where].to(rows.A.device))
                    self._tallies.setdefault((path, part), Tally()).add(found)

    def _ideal(self, s: int, part: int) -> Tensor:
        n = s - self.prefix
        size = n if self.size is None else self.size
        inside = self.routing.ideal(size, part)
        if len(inside) != n:
            raise ShapeError(
                f"{self.routing.name} is for {len(inside)} tokens and the run has {n}",
                "run the model on that many tokens",
            )
        whole = torch.zeros(s, s, dtype=inside.dtype)
        whole[self.prefix :, self.prefix :] = inside
        return whole

    def table(self, top: int | None = None) -> NearTable:
        rows = [
            Near(path, head, part, score)
            for (path, part), tally in self._tallies.items()
            for head, score in enumerate(tally.scores())
            if score is not None
        ]
        rows.sort(key=lambda near: near.relative)
        offsets = self.routing.offsets[:1] if self.routing.heads == 1 else self.routing.offsets
        return NearTable(self.routing.name, offsets, rows[:top])


def distance(rows: AttentionRows, ideal: Tensor) -> RowStatistics:
    """½‖A_t − I_t‖² of each row (b, h, t), for I (t, s)."""
    n = rows.n.double()
    seen = (ideal * rows.allowed).sum(-1)
    square = ideal.square().sum(-1)
    cross = (rows.A.double() * ideal).sum(-1)
    null = (rows.square + square) / 2 - rows.total * seen / n
    variance = rows.spread * (square - seen.square() / n).clamp_min(0) / (n - 1).clamp_min(1)
    return RowStatistics((rows.square + square) / 2 - cross, null, variance, rows.use & (seen > 1 - 1e-9))


def nearest_pairs(
    runs: Run | Sequence[Run], routing: Routing, *, size: Size | None = None, prefix: int = 0
) -> list[Near]:
    """Compare every head of the runs with every head of the construct, and return the nearest pairs first."""
    near = Nearness(routing, size=size, prefix=prefix)
    for run in [runs] if isinstance(runs, Run) else runs:
        near.add(run)
    return near.table().rows


@torch.no_grad()
def nearest_heads(
    model: nn.Module,
    batches: Iterable[Tensor | tuple[Tensor, ...]],
    routing: Routing,
    *,
    size: Size | None = None,
    prefix: int = 0,
    top: int | None = 10,
) -> NearTable:
    """Find the heads of a model nearest to a construct; `prefix` tokens (CLS) precede the routed ones."""
    near = Nearness(routing, size=size, prefix=prefix)
    for batch in batches:
        with trace(model, *score_paths(model)) as run:
            model(*(batch if isinstance(batch, tuple) else (batch,)))
        near.add(run)
    return near.table(top)
