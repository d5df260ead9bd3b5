"""Weights as maps: one head, all heads of a layer, an alignment."""

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

from glassformer.figures.labels import LETTER, clip, label_axis
from glassformer.figures.style import MOST_CELLS, Array, array, cells, figure, ink, scale_of, short, shrink

SMALL = 7.0  # points, of labels where maps are many
WRITTEN = 12  # up to so many rows and columns, each cell shows its number


def attention_map(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = "A"
) -> Figure:
    """A of one head (t, s): a row for each query, a column for each key, the number in each cell where it fits.

    Scores S may be drawn too; −∞, where a query may not look, is hatched grey.
    """
    weights = array(A, "A", 2, masked=True)
    return _map(weights, queries, keys, title, "query", "key")


def _map(
    A: Array, queries: Sequence[str] | None, keys: Sequence[str] | None, title: str, down: str, across: str
) -> Figure:
    t, s = A.shape
    fig = figure(_side(s) + 1.9, _side(t) + 1.1)
    ax = fig.subplots()
    image = draw_map(ax, A, queries, keys, written=max(t, s) <= WRITTEN)
    ax.set_title(clip(title, 80), fontsize=10)
    ax.set_xlabel(across)
    ax.set_ylabel(down)
    fig.colorbar(image, ax=ax, shrink=0.8, label=_meaning(A), extend=beyond(image))
    return fig


def _meaning(A: Array) -> str:
    what = "score" if A.min() < 0 else "weight"
    down, across = (math.ceil(n / MOST_CELLS) for n in A.shape)
    return what if down == across == 1 else f"{what}, mean of {down} × {across}"


def beyond(image: AxesImage, A: Array | None = None) -> Literal["neither", "max"]:
    """Whether some numbers lie above the last colour."""
    shown = image.get_array() if A is None else A
    assert shown is not None
    return "max" if float(shown.max()) > image.get_clim()[1] else "neither"


def draw_map(
    ax: Axes,
    A: Array,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    *,
    scale: tuple[float, float] | None = None,
    written: bool = False,
    size: float = 8.0,
) -> AxesImage:
    """The map itself, on axes that are there; `scale` are the numbers at the ends of the colours."""
    t, s = A.shape
    small, down, across = shrink(A)
    image = cells(ax, small, *(scale or scale_of(small)))
    label_axis(ax, "y", queries, t, down, size=size)
    label_axis(ax, "x", keys, s, across, size=size)
    if written:
        for i, j in np.ndindex(t, s):
            value = float(A[i, j])
            text, colour = (short(value), ink(image, value)) if np.isfinite(value) else ("−∞", "black")
            ax.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    return image


def _side(n: int) -> float:
    return min(7.0, max(2.4, 0.42 * n))


def heads_of_layer(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = ""
) -> Figure:
    """Every head of a layer (h, t, s) side by side on one scale; labels on the outer maps only."""
    weights = array(A, "A", 3, masked=True)
    count = len(weights)
    columns = count if count <= 4 else 4 if count <= 8 else 6
    rows = math.ceil(count / columns)
    side = 2.3 if columns <= 4 else 1.7
    fig, axes, bar = _panels(rows, columns, side, [_room(labels) for labels in (queries, keys)])
    small = np.stack([shrink(head)[0] for head in weights])
    for ax in axes[count:]:
        ax.set_axis_off()
    for head, ax in enumerate(axes[:count]):
        image = draw_map(ax, weights[head], queries, keys, scale=scale_of(small), size=SMALL)
        ax.set_title(f"head {head}", fontsize=9, y=1.0, pad=3)
        left, bottom = head % columns == 0, head + columns >= count
        ax.tick_params(axis="y", labelleft=left, left=left)
        ax.tick_params(axis="x", labelbottom=bottom, bottom=bottom)
    fig.text(0.5, 1 - 0.04 / fig.get_size_inches()[1], clip(title, 80), fontsize=10, ha="center", va="top")
    fig.colorbar(image, cax=bar, label=_meaning(weights[0]), extend=beyond(image, small))
    bar.tick_params(labelsize=SMALL)
    return fig


def _room(labels: Sequence[str] | None) -> float:
    """Inches that the longest label takes, were it turned."""
    longest = 4 if labels is None else max((len(clip(label)) for label in labels), default=1)
    return longest * SMALL * LETTER / 72 + 0.15


def _panels(rows: int, columns: int, side: float, room: Sequence[float]) -> tuple[Figure, Sequence[Axes], Axes]:
    """Square maps and a bar of colours. Laid out by hand: matplotlib's own layout takes longer than all the drawing."""
    left, bottom = room
    gap, top, right = (0.12, 0.25), 0.5, 0.85
    wide, high = columns * side + (columns - 1) * gap[0], rows * side + (rows - 1) * gap[1]
    fig = figure(left + wide + right, bottom + high + top)
    fig.set_layout_engine("none")
    page = fig.get_size_inches()

    def place(x: float, y: float, w: float, h: float) -> Axes:
        return fig.add_axes((x / page[0], y / page[1], w / page[0], h / page[1]))

    xs = [left + j * (side + gap[0]) for j in range(columns)]
    ys = [bottom + (rows - 1 - i) * (side + gap[1]) for i in range(rows)]
    axes = [place(x, y, side, side) for y in ys for x in xs]
    return fig, axes, place(left + wide + 0.15, bottom + 0.1 * high, 0.14, 0.8 * high)


def alignment(A: ArrayLike, source: Sequence[str], target: Sequence[str], *, title: str = "alignment") -> Figure:
    """Cross-attention of a translation (t, s): each target word's row, its strongest source word framed."""
    weights = array(A, "A", 2)
    fig = _map(weights, target, source, title, "target", "source")
    if max(weights.shape) <= 64:
        ax = fig.axes[0]
        for row, best in enumerate(weights.argmax(1)):
            for width, colour in ((3.2, "black"), (1.4, "white")):  # seen on every colour
                ax.add_patch(_frame(row, int(best), width, colour))
    return fig


def _frame(row: int, column: int, width: float, colour: str) -> Rectangle:
    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, lw=width, ec=colour, zorder=3)
