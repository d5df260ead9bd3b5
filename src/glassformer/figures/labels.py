"""Tick labels: as many as fit the axes at their final size."""

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

FONT = "DejaVu Sans"  # bundled with matplotlib
LINE = 1.3  # height of a line of text, in font sizes
LETTER = 0.66  # width of a letter, in font sizes
LABEL_SIZE = 8.0  # font size of the labels, in points
NUMBERS = (1, 2, 5)  # positions are labelled every 1, 2, 5, 10, 20, …
_SPELLED = {"\n": "↵", "\t": "⇥", "\u00a0": "␣"}


class Places(Locator):
    """Locator for every k-th of n cells, with the smallest k whose labels do not touch; positions use round steps."""

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
        return tick_step(self.n, points, self.extent, self.round_steps)


def tick_step(n: int, points: float, extent: float, round_steps: bool) -> int:
    """Return the smallest step at which labels of this extent do not touch; for positions one of 1, 2, 5, 10, …"""
    least = math.ceil(n / max(1, math.floor(points / extent)))
    if not round_steps:
        return least
    power = 10 ** (len(str(least)) - 1)
    return next(step for step in (*(k * power for k in NUMBERS), 10 * power) if step >= least)


def axis_names(labels: Sequence[str] | None, n: int, what: str, most: int = 14) -> list[str]:
    """Return the names of n rows or columns, by default their positions."""
    if labels is not None and len(labels) != n:
        raise ShapeError(f"there are {len(labels)} labels for {n} {what}", "give one for each")
    return [str(place) for place in range(n)] if labels is None else [shorten_label(label, most) for label in labels]


def label_axis(
    ax: Axes,
    axis: Literal["x", "y"],
    labels: Sequence[str] | None,
    n: int,
    block: int = 1,
    *,
    most: int = 14,
) -> None:
    """Label n cells, drawn in blocks, along an axis with names of up to `most` letters, by default their positions.

    Names along x are rotated where a cell is too narrow for them.
    """
    names = axis_names(labels, n, "rows" if axis == "y" else "columns", most)
    wide = max(map(len, names), default=1)
    flat = axis == "x" and (labels is None or wide * LABEL_SIZE * LETTER <= _nominal(ax) * 72 / n)
    extent = LABEL_SIZE * ((wide + 1.2) * LETTER if flat and labels is None else LINE)
    target = ax.xaxis if axis == "x" else ax.yaxis
    target.set_major_locator(Places(ax, axis, n, block, extent, labels is None))
    middle = (block - 1) / 2
    target.set_major_formatter(FuncFormatter(lambda at, _: names[min(n - 1, max(0, round(at * block + middle)))]))
    ax.tick_params(axis=axis, labelsize=LABEL_SIZE, length=2, rotation=90 if axis == "x" and not flat else 0)


def _nominal(ax: Axes) -> float:
    """Return the approximate width of the axes in inches, before space for labels is subtracted."""
    fig = ax.get_figure(root=True)
    assert fig is not None
    return float(ax.get_position().width * fig.get_size_inches()[0])


def shorten_label(text: str, most: int = 14) -> str:
    """Shorten a label to one line of glyphs that the font has, with `$` escaped, since it would start a formula."""
    shown = "".join(map(_spelled, text.strip(" "))) or "␣" * len(text)
    shown = shown if len(shown) <= most else shown[: most - 1] + "…"
    return shown.replace("$", r"\$")


def _spelled(letter: str) -> str:
    if letter in _SPELLED:
        return _SPELLED[letter]
    if unicodedata.category(letter).startswith("C") or not _has_glyph(ord(letter)):
        return "□"
    return letter


@lru_cache(maxsize=4096)
def _has_glyph(code: int) -> bool:
    """Return whether the font has this glyph; for a missing one matplotlib would warn and draw a box."""
    return get_font(findfont(FONT)).get_char_index(code) != 0
