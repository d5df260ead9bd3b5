"""All heads of a layer, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from glassformer.figures.attention import beyond, meaning
from glassformer.figures.labels import LETTER, LINE, axis_names, shorten_label, tick_step
from glassformer.figures.style import HATCHED, SEQUENTIAL, array, colours, figure, scale_of, shrink

SIZE = 7.0  # font size of labels, in points
GAP = (0.12, 0.25)  # inches between maps, across and down
TOP, RIGHT = 0.5, 1.05


def heads_of_layer(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = ""
) -> Figure:
    """Draw every head of a layer (h, t, s) side by side on one colour scale, with labels on the outer maps only.

    All maps share one Axes with units of inches: separate Axes would take matplotlib most of a second.
    """
    weights = array(A, "A", 3, masked=True)
    h, t, s = weights.shape
    columns = h if h <= 4 else 3 if h in (5, 6) else 4 if h <= 8 else 6
    rows = math.ceil(h / columns)
    side = 2.3 if columns <= 4 else 1.7
    down, across = axis_names(queries, t, "rows"), axis_names(keys, s, "columns")
    left, bottom = (max(map(len, names)) * SIZE * LETTER / 72 + 0.15 for names in (down, across))
    wide, high = columns * side + (columns - 1) * GAP[0], rows * side + (rows - 1) * GAP[1]
    fig = figure(left + wide + RIGHT, bottom + high + TOP)
    fig.set_layout_engine("none")
    page = fig.get_size_inches()
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    small = np.stack([shrink(head)[0] for head in weights])
    norm = Normalize(*scale_of(small))
    for head in range(h):
        x, y = head % columns * (side + GAP[0]), head // columns * (side + GAP[1])
        if not np.isfinite(small[head]).all():
            ax.add_patch(Rectangle((x, y), side, side, zorder=0, **HATCHED))
        image = ax.imshow(
            np.ma.masked_invalid(small[head]),
            cmap=colours(SEQUENTIAL),
            norm=norm,
            interpolation="nearest",
            extent=(x, x + side, y + side, y),
            aspect="auto",
        )
        ax.add_patch(Rectangle((x, y), side, side, fill=False, ec="black", lw=0.8))
        ax.text(x + side / 2, y - 0.04, f"head {head}", ha="center", va="bottom", fontsize=9, gid="title")
        if head % columns == 0:
            _label(ax, "y", down, x, y, side, round_steps=queries is None)
        if head + columns >= h:
            _label(ax, "x", across, x, y + side, side, round_steps=keys is None)
    ax.set(xlim=(-left, page[0] - left), ylim=(page[1] - TOP, -TOP))
    ax.text(wide / 2, 0.04 - TOP, shorten_label(title, 80), ha="center", va="top", fontsize=10)
    corner, size = (left + wide + 0.15, bottom + 0.1 * high) / page, (0.14, 0.8 * high) / page
    bar = fig.add_axes((*corner, *size))
    fig.colorbar(image, cax=bar, label=meaning(weights[0]), extend=beyond(small, norm.vmax or 0.0))
    bar.tick_params(labelsize=SIZE)
    return fig


def _label(
    ax: Axes, axis: Literal["x", "y"], names: Sequence[str], x: float, y: float, side: float, *, round_steps: bool
) -> None:
    """Draw names along one side of a map that ends at (x, y), as many as do not touch."""
    n, letters = len(names), max(map(len, names)) * SIZE * LETTER
    flat = axis == "y" or letters * (1.2 if not round_steps else 1) <= side * 72 / n or round_steps
    extent = letters + SIZE if axis == "x" and flat and round_steps else SIZE * LINE
    for place in range(0, n, tick_step(n, side * 72, extent, round_steps)):
        at = (place + 0.5) * side / n
        if axis == "y":
            ax.text(x - 0.05, y + at, names[place], ha="right", va="center", fontsize=SIZE, gid="y")
        else:
            turn = 0 if flat else 90
            ax.text(x + at, y + 0.05, names[place], ha="center", va="top", fontsize=SIZE, rotation=turn, gid="x")
