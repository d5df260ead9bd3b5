"""Labels of ticks: as many as the axes have room for when they are drawn, whatever their size turns out to be."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import FuncFormatter, Locator

from glassformer.errors import ShapeError

FONT = "DejaVu Sans"  # comes with matplotlib
LINE = 1.3  # height of a line of text, in font sizes
LETTER = 0.66  # width of a letter
NUMBERS = (1, 2, 5)  # positions are labelled every 1, 2, 5, 10, 20, …
_SPELLED = {"\n": "↵", "\t": "⇥", "\u00a0": "␣"}


class Places(Locator):
    """Every k-th of n cells, k the smallest whose labels do not touch; positions by round steps."""

    def __init__(self, ax: Axes, side: Literal["x", "y"], n: int, block: int, extent: float, round_steps: bool) -> None:
        self.ax, self.side, self.n, self.block = ax, side, n, block
        self.extent, self.round_steps = extent, round_steps

    def __call__(self) -> list[float]:
        return self.tick_values(0, self.n)

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        return [(place - (self.block - 1) / 2) / self.block for place in range(0, self.n, self.step())]

    def step(self) -> int:
        box, fig = self.ax.get_window_extent(), self.ax.get_figure(root=True)
        assert fig is not None
        points = (box.width if self.side == "x" else box.height) * 72 / fig.dpi
        return step_of(self.n, points, self.extent, self.round_steps)


def step_of(n: int, points: float, extent: float, round_steps: bool) -> int:
    """The smallest step at which labels of this extent along n cells do not touch; of positions 1, 2, 5, 10, …"""
    least = math.ceil(n / max(1, math.floor(points / extent)))
    if not round_steps:
        return least
    power = 10 ** (len(str(least)) - 1)
    return next(step for step in (*(k * power for k in NUMBERS), 10 * power) if step >= least)


def named(labels: Sequence[str] | None, n: int, what: str, most: int = 14) -> list[str]:
    """What n rows or columns are called: positions if nothing else."""
    if labels is not None and len(labels) != n:
        raise ShapeError(f"{len(labels)} labels for {n} {what}", "give one for each")
    return [str(place) for place in range(n)] if labels is None else [clip(label, most) for label in labels]


def label_axis(
    ax: Axes,
    axis: Literal["x", "y"],
    labels: Sequence[str] | None,
    n: int,
    block: int = 1,
    *,
    size: float = 8.0,
    most: int = 14,
) -> None:
    """Names of n cells along an axis, drawn in blocks, of `most` letters; positions where there are no names.

    Names along x are turned where a cell is too narrow for them.
    """
    names = named(labels, n, "rows" if axis == "y" else "columns", most)
    wide = max(map(len, names), default=1)
    flat = axis == "x" and (labels is None or wide * size * LETTER <= _nominal(ax) * 72 / n)
    extent = size * ((wide + 1.2) * LETTER if flat and labels is None else LINE)
    target = ax.xaxis if axis == "x" else ax.yaxis
    target.set_major_locator(Places(ax, axis, n, block, extent, labels is None))
    middle = (block - 1) / 2
    target.set_major_formatter(FuncFormatter(lambda at, _: names[min(n - 1, max(0, round(at * block + middle)))]))
    ax.tick_params(axis=axis, labelsize=size, length=2, rotation=90 if axis == "x" and not flat else 0)


def _nominal(ax: Axes) -> float:
    """About how many inches wide the axes will be: their share of the figure, before labels take theirs."""
    fig = ax.get_figure(root=True)
    assert fig is not None
    return float(ax.get_position().width * fig.get_size_inches()[0])


def clip(text: str, most: int = 14) -> str:
    """A label on one line, of letters that the font has; `$` would start a formula."""
    shown = "".join(map(_spelled, text.strip(" "))) or "␣" * len(text)
    shown = shown if len(shown) <= most else shown[: most - 1] + "…"
    return shown.replace("$", r"\$")


def _spelled(letter: str) -> str:
    if letter in _SPELLED:
        return _SPELLED[letter]
    if unicodedata.category(letter).startswith("C") or not _has(ord(letter)):
        return "□"
    return letter


@lru_cache(maxsize=4096)
def _has(code: int) -> bool:
    """Without this matplotlib warns of a missing glyph and draws a box of its own."""
    return get_font(findfont(FONT)).get_char_index(code) != 0
