"""score[l, h] = metric(model(corrupted) with head h of layer l patched from the clean input): activation patching.

To locate what distinguishes two inputs, patch one part at a time from the clean run into the corrupted one and measure
how much of the clean answer is recovered (Vig et al. 2020, Meng et al. 2022). Quantities without heads (X, R, O) are
patched token by token instead: layers × positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor, nn

from glassformer.errors import InputError, ShapeError
from glassformer.lens.edit import Edit, at_heads, edit, replace
from glassformer.lens.paths import AXES, Names, attention_layers, taps
from glassformer.lens.receptive import Progress, in_eval_mode
from glassformer.lens.trace import Run, trace

Inputs = Tensor | tuple[Tensor, ...]
Metric = Callable[[Any], Tensor | float]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """`scores` (layers, heads or positions): the metric after each patch; NaN where a layer has fewer heads."""

    scores: Tensor
    paths: list[str]
    axis: Literal["head", "position"]
    clean: float
    corrupted: float

    @property
    def recovered(self) -> Tensor:
        """(patched − corrupted) / (clean − corrupted): 0 means no effect, 1 full recovery of the clean answer."""
        if self.clean == self.corrupted:
            fact = f"the metric is {self.clean:g} on both inputs"
            raise InputError(fact, "choose inputs or a metric that differ")
        return (self.scores - self.corrupted) / (self.clean - self.corrupted)

    def largest(self, count: int = 5) -> list[tuple[str, int, float]]:
        """Return (path, head or position, recovered), strongest effect first."""
        flat = self.recovered.nan_to_num(0.0)
        order = flat.abs().flatten().argsort(descending=True, stable=True)[:count].tolist()
        width = flat.shape[1]
        return [(self.paths[i // width], i % width, float(flat[i // width, i % width])) for i in order]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield f"metric: clean {self.clean:.4g}, corrupted {self.corrupted:.4g}; shown: the share that is recovered"
        places = [f"{self.axis[0]}{i}" for i in range(self.scores.shape[1])]
        table = Table("", *places, box=None, header_style="bold")
        for path, row in zip(self.paths, self.recovered.tolist(), strict=True):
            table.add_row(path, *("" if x != x else f"{x:.2f}" for x in row))
        yield table


@torch.no_grad()
def sweep(
    model: nn.Module,
    clean_input: Inputs,
    corrupted_input: Inputs,
    metric: Metric,
    *,
    site: str = "H",
    progress: Progress | None = None,
) -> Sweep:
    """Patch `site` of one head (or, without heads, one token) of one layer at a time; `metric` receives the output.

    A site is a symbol (A, H, Q, … of every attention layer; X, R, O of every block) or a pattern of paths. The model
    runs layers × heads times in evaluation mode; the mode of every module is restored afterwards.
    """
    clean, corrupted = _tuple(clean_input), _tuple(corrupted_input)
    if [x.shape for x in clean] != [x.shape for x in corrupted]:
        shapes = [[tuple(x.shape) for x in inputs] for inputs in (clean, corrupted)]
        raise ShapeError(f"the inputs have shapes {shapes[0]} and {shapes[1]}", "give two inputs of the same length")
    paths = site_paths(model, site)
    with in_eval_mode(model):
        with trace(model, *paths) as run:
            best = _number(metric(model(*clean)))
        worst = _number(metric(model(*corrupted)))
        jobs = [(row, place, path) for row, path in enumerate(paths) for place in range(_places(run, path))]
        scores = torch.full((len(paths), 1 + max(place for _, place, _ in jobs)), float("nan"), dtype=torch.float64)
        value, made = torch.empty(0), -1
        for done, (row, place, path) in enumerate(jobs, 1):
            if row != made:  # A is computed from its pattern once per layer
                value, made = run[path], row
            with edit(model, path, _patch(path, value, place)):
                scores[row, place] = _number(metric(model(*corrupted)))
            if progress is not None:
                progress(done, len(jobs))
    axis: Literal["head", "position"] = "head" if _has_heads(paths[0]) else "position"
    return Sweep(scores=scores, paths=paths, axis=axis, clean=best, corrupted=worst)


def site_paths(model: nn.Module, site: str) -> list[str]:
    """Return the paths of a site: those of attention layers for a symbol with heads, those of blocks for X, R, O."""
    known = list(taps(model))
    if re.fullmatch(r"[A-Z]", site):
        if site not in AXES:
            raise InputError(f"there is no quantity {site}", f"choose one of {', '.join(AXES)}, or a pattern")
        if _has_heads(site):
            known = [f"{path}.{site}".lstrip(".") for path in attention_layers(model)]
        else:
            known = [path for path in known if re.fullmatch(rf".*\.\d+(\.ffn)?\.{site}", path)]
            known = [path for path in known if ("ffn" in path) == (site in "PGF")]
        if not known:
            fact = f"no layer or block of this {type(model).__name__} has a quantity {site}"
            raise InputError(fact, f'choose H, A or another symbol, or give a pattern of paths such as "*.norm.{site}"')
        return known
    paths = [name.path for name in Names.of(model).find(site)]
    if len({_has_heads(path) for path in paths}) > 1:
        raise InputError(f"{site!r} matches quantities with and without heads", "patch one kind at a time")
    return paths


def _has_heads(path: str) -> bool:
    return AXES.get(path.rpartition(".")[2], "").split()[1:2] in (["h"], ["g"])


def _places(run: Run, path: str) -> int:
    shape = run.passes(path)[-1].shape
    if len(shape) != (4 if _has_heads(path) else 3):
        raise InputError(f"{path} has shape {tuple(shape)}", "patch a quantity with heads or tokens")
    return int(shape[1])


def _patch(path: str, value: Tensor, place: int) -> Edit:
    if _has_heads(path):
        return at_heads(replace(value), place)
    return lambda old: torch.cat([old[:, :place], value[:, place : place + 1].to(old), old[:, place + 1 :]], 1)


def _number(found: Tensor | float) -> float:
    if isinstance(found, Tensor) and found.numel() != 1:
        raise InputError(
            f"the metric returned a tensor of shape {tuple(found.shape)}",
            "return one number, as in lambda out: out[0, -1, 9]",
        )
    return float(found)


def _tuple(inputs: Inputs) -> tuple[Tensor, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)
