"""A finished figure, laid out again for narrow screens."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text

WIDTH = 4.0  # inches: the letters of a figure keep their size on a screen of 360 pixels
TALLEST = 3.4  # inches of one of its axes
POINTS = 72
LETTER = 0.56  # mean width of a letter, as a fraction of the size of the font


def narrow(fig: Figure) -> Figure:
    """Stack the axes of a figure, put its legends below them and break its titles into lines.

    Modifies the figure in place and returns it; its numbers, marks and colours stay the same.
    """
    main = [ax for ax in fig.axes if not hasattr(ax, "_colorbar")]
    height = min(TALLEST, fig.get_figheight() / len({ax.get_subplotspec().rowspan.start for ax in main}))  # type: ignore[union-attr]
    grid = GridSpec(len(main), 1, figure=fig)
    lines = 0  # added by titles and legends
    for ax, place in zip(main, (grid[row] for row in range(len(main))), strict=True):
        ax.set_subplotspec(place)
        ax.tick_params(labelleft=True, labelbottom=True)  # shared axes have labels beside the first panel only
        lines += _wrap(ax.title)
        for label in (ax.xaxis.label, ax.yaxis.label):
            _wrap(label, 0.8 * (WIDTH if label is ax.xaxis.label else height))
        lines += _legend_below(ax)
    if fig._suptitle is not None:  # type: ignore[attr-defined]
        lines += _wrap(fig._suptitle)  # type: ignore[attr-defined]
    fig.set_size_inches(WIDTH, height * len(main) + 0.16 * lines)
    fig.canvas.draw()
    for ax in main:
        _rotate_crowded(ax)
    return fig


def _wrap(text: Text, inches: float = WIDTH) -> int:
    """Break a text into lines of this length; returns how many lines were added."""
    letters = max(8, int(0.94 * inches * POINTS / (LETTER * float(text.get_fontsize()))))
    broken = textwrap.fill(text.get_text(), letters)
    text.set_text(broken)
    return broken.count("\n")


def _legend_below(ax: Any) -> int:
    """Move the legend below the axes; returns how many lines it takes there."""
    if ax.get_legend() is None:
        return 0
    handles, labels = ax.get_legend_handles_labels()
    columns = 2 if len(labels) > 3 and max(map(len, labels)) < 22 else 1
    broken = [textwrap.fill(label, 44 // columns) for label in labels]
    lower = -0.27 if ax.get_xlabel() else -0.15
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, lower), "ncols": columns}
    ax.legend(handles, broken, fontsize=8, frameon=False, **place)
    return -(-sum(label.count("\n") + 1 for label in broken) // columns) + 1


def _rotate_crowded(ax: Any) -> None:
    """Rotate the labels of the horizontal axis if they touch each other."""
    labels = [label for label in ax.get_xticklabels() if label.get_text() and label.get_visible()]
    boxes = [label.get_window_extent() for label in labels]
    if any(left.x1 + 2 > right.x0 for left, right in pairwise(boxes) if left.x0 <= right.x0):
        for label in labels:
            label.set(rotation=45, ha="right", rotation_mode="anchor")
