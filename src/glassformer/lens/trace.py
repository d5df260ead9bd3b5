"""`with trace(model) as run: model(x)`: every quantity of a run by its path.

Layers stay fused. Of S and A only Q, K and the log-sum-exp L are kept, and `run["encoder.3.attention.A"]` makes
A = exp(S − L) when it is asked for; `run.part(path, heads=…, rows=…)` makes just that part of it. Who will read all
of every A gives a function that does, `trace(model, "*.A", read=…)`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import Any, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor, nn

from glassformer.core import Pattern
from glassformer.core.memory import again
from glassformer.errors import InputError, ShapeError
from glassformer.lens.paths import axes_of, match, taps
from glassformer.nn import Tap

Kept = Tensor | Pattern
Places = slice | list[int] | int
Reader = Callable[[str, Tensor], object]


class Run:
    """What passed the watched taps. A path used more than once (token by token) keeps every pass; [] gives the last."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._kept: dict[str, list[Kept]] = {}
        self._axes: dict[str, tuple[int, str]] = {}

    def __getitem__(self, pattern: str) -> Tensor:
        """The quantity a path names; a pattern with wildcards must name one."""
        return self.part(pattern)

    def each(self, pattern: str) -> Iterator[tuple[str, Tensor]]:
        """Every quantity that the pattern names, one at a time: only one A is held at once."""
        blocks: list[mmap] = []
        for path in match((pattern,), self.paths):
            yield path, self._on(blocks, path)

    def _on(self, blocks: list[mmap], path: str) -> Tensor:
        with again(blocks):
            return self.part(path)

    def part(self, path: str, heads: Places = slice(None), rows: Places = slice(None)) -> Tensor:
        """Some heads and query rows of a quantity that has them; of S and A, nothing else is made."""
        paths = match((path,), self.paths)
        if len(paths) > 1:
            raise InputError(f"{path!r} names {len(paths)} quantities", "ask for one, or use run.each(pattern)")
        path = paths[0]
        kept = self.passes(path)[-1]
        if len(kept.shape) != 4:
            if heads == rows == slice(None):
                return cast(Tensor, kept)
            raise InputError(f"{path} has no heads", "leave heads and rows out")
        some = _inside(heads, kept.shape[1], f"head of {path}"), _inside(rows, kept.shape[2], f"row of {path}")
        if isinstance(kept, Pattern):
            return kept.S(*some) if _symbol(path) == "S" else kept.A(*some)
        return kept if some == (slice(None), slice(None)) else kept[:, some[0]][:, :, some[1]]

    def passes(self, path: str) -> list[Kept]:
        """Every pass of one quantity; of S and A as patterns, from which they are made."""
        if path not in self._kept:
            raise InputError(f"{path} was watched but never ran", "run the model inside the with block")
        return self._kept[path]

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def __iter__(self) -> Iterator[str]:
        """The paths that ran, in the order in which they did."""
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, path: str, value: Kept) -> None:
        self._bind(path, value.shape)
        self._kept.setdefault(path, []).append(value)

    def begin(self) -> None:
        """A new pass of the model: its sizes may be others."""
        self._axes.clear()

    def _bind(self, path: str, shape: Sequence[int]) -> None:
        axes = axes_of(path)
        if len(axes) != len(shape):
            return
        for axis, size in zip(axes, shape, strict=True):
            bound, place = self._axes.setdefault(axis, (size, path))
            if bound != size:
                fact = f"axis {axis} is {bound} at {place} and {size} at {path}"
                raise ShapeError(fact, "keep the sizes when you edit")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table("quantity", "axes", "shape", "mean", "largest", box=None, header_style="bold")
        for row in self._rows():
            table.add_row(*row)
        yield table

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for path in self:
            kept = self._kept[path][-1]
            axes = " ".join(axis.rpartition(".")[2] for axis in axes_of(path))
            shape = " × ".join(map(str, kept.shape))
            if isinstance(kept, Pattern):  # not made only to be printed
                yield path, axes, shape, "late", "late"
            else:
                value = kept.detach()
                yield path, axes, shape, f"{value.mean().item():.4g}", f"{value.abs().max().item():.4g}"

    def __repr__(self) -> str:
        return f"Run({len(self)} of {len(self.paths)} quantities)"

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        heads = "".join(f"<th>{name}</th>" for name in ("quantity", "axes", "shape", "mean", "largest"))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"


@contextmanager
def trace(model: nn.Module, *patterns: str, read: Reader | None = None) -> Iterator[Run]:
    """Watches the quantities that the patterns name (all, if none is given) while the block runs.

    `read(path, value)` is for who will read all of every A once: each value as soon as it is there, and none is kept.
    Layers then make A on their way, which costs about an explicit pass; afterwards it costs its scores once more.
    """
    known = taps(model)
    watched = match(patterns, list(known)) if patterns else list(known)
    run = Run(watched)
    entered = model.register_forward_pre_hook(lambda *_: run.begin())
    added: list[tuple[Tap, Any, bool]] = []
    try:
        for path in watched:
            tap, watcher = known[path], _keeper(run, path) if read is None else _reader(read, path)
            whole = read is not None and _symbol(path) == "A"
            tap.watchers.append(watcher)
            tap.whole += whole
            added.append((tap, watcher, whole))
        with again([]):
            yield run
    finally:
        entered.remove()
        for tap, watcher, whole in added:
            tap.watchers.remove(watcher)
            tap.whole -= whole


def _keeper(run: Run, path: str) -> Any:
    return lambda value: run.keep(path, value)


def _reader(read: Reader, path: str) -> Any:
    symbol = _symbol(path)
    return lambda value: read(path, getattr(value, symbol)() if isinstance(value, Pattern) else value)


def _inside(chosen: Places, count: int, what: str) -> slice | list[int]:
    """What was chosen, if there is such; one number is a list of one."""
    if isinstance(chosen, slice):
        return chosen
    several = [chosen] if isinstance(chosen, int) else list(chosen)
    outside = [i for i in several if not -count <= i < count]
    if outside:
        raise InputError(f"there is no {what} {outside[0]}", f"they are 0 to {count - 1}")
    return several


def _symbol(path: str) -> str:
    return path.rpartition(".")[2]
