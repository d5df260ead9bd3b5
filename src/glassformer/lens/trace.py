"""`with trace(model) as run: model(x)`: record every quantity of a forward pass by its path.

Layers stay fused. For S and A only Q, K and the log-sum-exp L are kept, and `run["encoder.3.attention.A"]` computes
A = exp(S − L) lazily; `run.part(path, heads=…, rows=…)` computes only that part. While autograd records, S and A are
kept as they were used, so that `torch.autograd.grad(y, run["encoder.3.attention.A"])` works.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor, nn

from glassformer.core import Pattern
from glassformer.errors import InputError, ShapeError
from glassformer.lens.paths import Names, QuantityName, axes_of, taps
from glassformer.nn.attention import HeadOutputs
from glassformer.nn.tap import attached

Kept = Tensor | Pattern | HeadOutputs
Places = slice | list[int] | int
Reader = Callable[[str, Tensor], object]
ALL = slice(None)


class Run:
    """Traced quantities by path. A path used more than once (token by token) keeps every pass; [] returns the last.

    The tensor that [] returns may be modified in place: it is a copy, or newly computed. While autograd records, it is
    the model's own tensor, as gradients require; if that has been modified in place, [] raises an error.
    """

    def __init__(self, names: Names | Sequence[str]) -> None:
        self.names = names if isinstance(names, Names) else Names(names)
        self._kept: dict[str, list[Kept]] = {}
        self._versions: dict[int, int] = {}
        self._axes: dict[str, tuple[int, str]] = {}
        self._passed: set[str] = set()

    @property
    def paths(self) -> list[str]:
        """The traced paths, whether they ran or not."""
        return self.names.paths

    def __getitem__(self, pattern: str) -> Tensor:
        """Return the quantity at a path; a pattern with wildcards must match exactly one."""
        return self.part(pattern)

    def each(self, pattern: str) -> Iterator[tuple[str, Tensor]]:
        """Yield every quantity that matches the pattern and was computed, one at a time: only one A is in memory."""
        names = self.names.find(pattern)
        for name in [name for name in names if name.path in self._kept] or names:
            yield name.path, self._value(name, ALL, ALL)

    def part(self, path: str, heads: Places = ALL, rows: Places = ALL) -> Tensor:
        """Return some heads and query rows of a quantity that has them; for S and A, only those are computed."""
        names = self.names.find(path)
        if len(names) > 1:
            raise InputError(f"{path!r} names {len(names)} quantities", "ask for one, or use run.each(pattern)")
        return self._value(names[0], heads, rows)

    def _value(self, name: QuantityName, heads: Places, rows: Places) -> Tensor:
        path, order = name
        kept = self.passes(path)[-1]
        kept = getattr(kept, "held", {}).get(_symbol(path), kept)
        if len(kept.shape) != 4:
            if heads != ALL or rows != ALL:
                raise InputError(f"{path} has no heads", "leave heads and rows out")
            value = self._own(path, cast(Tensor, kept))
        else:
            some = _inside(heads, kept.shape[1], f"head of {path}"), _inside(rows, kept.shape[2], f"row of {path}")
            if isinstance(kept, Tensor):
                value = kept if some == (ALL, ALL) else kept[:, some[0]][:, :, some[1]]
                value = self._own(path, kept, value)
            else:
                value = getattr(kept, _symbol(path))(*some)
        return value if order is None else value.permute(order)

    def _own(self, path: str, kept: Tensor, value: Tensor | None = None) -> Tensor:
        """Return a copy or, if autograd records, the tensor itself, provided it was not modified in place."""
        value = kept if value is None else value
        if not kept.requires_grad:
            return value.clone()
        if kept._version != self._versions[id(kept)]:
            raise InputError(f"{path} was modified in place after it was traced", "modify a clone")
        return value

    def passes(self, path: str) -> list[Any]:
        """Return every pass of one quantity, read-only: tensors, or (for S, A, HO) the objects that compute them."""
        if path not in self._kept:
            raise InputError(f"{path} was traced but never computed", "run the model inside the with block")
        return self._kept[path]

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths that ran, in order of execution."""
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, path: str, value: Kept) -> None:
        if path in self._passed:  # a new forward pass, whose sizes may differ
            self._passed.clear()
            self._axes.clear()
        self._passed.add(path)
        self._bind(path, value.shape)
        parts = [value] if isinstance(value, Tensor) else [*getattr(value, "held", {}).values()]
        self._versions |= {id(part): part._version for part in parts if part.requires_grad}
        self._kept.setdefault(path, []).append(value)

    def _bind(self, path: str, shape: Sequence[int]) -> None:
        axes = axes_of(path)
        if len(axes) != len(shape):
            return
        new = _symbol(path) in ("K0", "K", "V")  # with a cache, only those of this pass; S and A have all keys
        for axis, size in zip(axes, shape, strict=True):
            name = f"{axis}, new" if new and axis.endswith(".s") else axis
            bound, place = self._axes.setdefault(name, (size, path))
            if bound != size:
                fact = f"axis {axis} is {bound} at {place} and {size} at {path}"
                raise ShapeError(fact, "keep the shape when you edit")

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
            if isinstance(kept, Tensor):
                value = kept.detach()
                yield path, axes, shape, f"{value.mean().item():.4g}", f"{value.abs().max().item():.4g}"
            else:  # not computed just for printing
                yield path, axes, shape, "lazy", "lazy"

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
    """Inside the block, trace the quantities that match the patterns; without a pattern, trace all.

    Only forward passes of the current thread or task are traced: others may run and trace the same model concurrently.
    A thread started inside the block is traced if it runs in a copy of the context (`contextvars.copy_context().run`).

    `read(path, value)` receives each value as soon as it is computed, and no value is kept: use it to read every A in
    full exactly once. Layers then compute A explicitly, which is faster than recomputing it afterwards.

    >>> model, tokens = gf.load("tiny:decoder"), torch.tensor([[3, 1, 4, 1, 5]])
    >>> with gf.trace(model, "*.A") as trace:
    ...     logits = model(tokens)
    >>> trace["decoder.0.attention.A"].shape
    torch.Size([1, 2, 5, 5])
    """
    known, names = taps(model), Names.of(model)
    found = names.find(*patterns) if patterns else names.find("*")
    run = Run(names.only([name.path for name in found]))
    functions = [_keeper(run, name.path) if read is None else _reader(read, name) for name in found]
    whole = [read is not None and _symbol(name.path) == "A" for name in found]
    places = [(known[name.path].watchers, f) for name, f in zip(found, functions, strict=True)]
    partly = [place for place, all_of_it in zip(places, whole, strict=True) if not all_of_it]
    fully = [place for place, all_of_it in zip(places, whole, strict=True) if all_of_it]
    with attached(partly), attached(fully, whole=True):
        yield run


def _keeper(run: Run, path: str) -> Any:
    return lambda value: run.keep(path, value)


def _reader(read: Reader, name: QuantityName) -> Any:
    path, order = name

    def reader(kept: Kept) -> None:
        value = kept if isinstance(kept, Tensor) else getattr(kept, _symbol(path))()
        before = None if value.is_inference() else value._version
        read(path, value if order is None else value.permute(order))
        if before is not None and value._version != before:
            raise InputError(f"a reader modified {path} in place", "modify a clone, or use edit")

    return reader


def _inside(chosen: Places, count: int, what: str) -> slice | list[int]:
    """Return the chosen indices after a range check; a single number becomes a list."""
    if isinstance(chosen, slice):
        return chosen
    several = [chosen] if isinstance(chosen, int) else list(chosen)
    outside = [i for i in several if not -count <= i < count]
    if outside:
        raise InputError(f"there is no {what} {outside[0]}", f"choose one from 0 to {count - 1}")
    return several


def _symbol(path: str) -> str:
    return path.rpartition(".")[2]
