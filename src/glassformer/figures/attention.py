"""Attention weights as heat maps: a single head, and an alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from glassformer.figures.labels import label_axis, shorten_label
from glassformer.figures.style import MOST_CELLS, Array, array, draw_cells, figure, ink, scale_of, short_number, shrink

WRITTEN = 12  # rows and columns up to which each cell shows its number


def attention_map(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = "A"
) -> Figure:
    """Draw A of one head (t, s): a row per query, a column per key, and the number in each cell where it fits.

    Scores S may be drawn too; −∞, where a key is masked, is hatched grey.
    """
    weights = array(A, "A", 2, masked=True)
    return _map(weights, queries, keys, title, "query", "key")


def _map(
    A: Array, queries: Sequence[str] | None, keys: Sequence[str] | None, title: str, down: str, across: str
) -> Figure:
    t, s = A.shape
    fig = figure(_side(s) + 1.9, _side(t) + 1.1)
    ax = fig.subplots()
    small, down_by, across_by = shrink(A)
    image = draw_cells(ax, small, *scale_of(small))
    label_axis(ax, "y", queries, t, down_by)
    label_axis(ax, "x", keys, s, across_by)
    if max(t, s) <= WRITTEN:
        _write(ax, image, A)
    ax.set_title(shorten_label(title, 80), fontsize=10)
    ax.set_xlabel(across)
    ax.set_ylabel(down)
    fig.colorbar(image, ax=ax, shrink=0.8, label=meaning(A), extend=beyond(small, image.get_clim()[1]))
    return fig


def meaning(A: Array) -> str:
    what = "score" if A.min() < 0 else "weight"
    down, across = (math.ceil(n / MOST_CELLS) for n in A.shape)
    return what if down == across == 1 else f"{what}, mean of {down} × {across}"


def beyond(A: Array, high: float) -> Literal["neither", "max"]:
    """Return which end of the colour bar is extended: "max" if some values lie above the last colour."""
    return "max" if float(A.max()) > high else "neither"


def _write(ax: Axes, image: AxesImage, A: Array) -> None:
    for i, j in np.ndindex(A.shape):
        value = float(A[i, j])
        text, colour = (short_number(value), ink(image, value)) if np.isfinite(value) else ("−∞", "black")
        ax.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)


def _side(n: int) -> float:
    return min(7.0, max(2.4, 0.42 * n))


def alignment(A: ArrayLike, source: Sequence[str], target: Sequence[str], *, title: str = "alignment") -> Figure:
    """Draw the cross-attention of a translation (t, s): a row per target token, its strongest source token framed."""
    weights = array(A, "A", 2)
    fig = _map(weights, target, source, title, "target", "source")
    if max(weights.shape) <= 64:
        ax = fig.axes[0]
        for row, best in enumerate(weights.argmax(1)):
            for width, colour in ((3.2, "black"), (1.4, "white")):  # visible on every colour
                ax.add_patch(_frame(row, int(best), width, colour))
    return fig


def _frame(row: int, column: int, width: float, colour: str) -> Rectangle:
    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, lw=width, ec=colour, zorder=3)
