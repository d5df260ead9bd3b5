"""Self-attention drawn as arcs between the tokens of a line."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from numpy.typing import ArrayLike

from glassformer.errors import InputError, ShapeError
from glassformer.figures.labels import LETTER, LINE, shorten_label
from glassformer.figures.style import LINES, Array, array, figure

MOST_ARCS = 200  # only the strongest are drawn, to stay readable
SIZE = 9.0  # font size of tokens, in points
WIDEST, HIGHEST = 14.0, 2.2  # inches


def arcs(A: ArrayLike, tokens: Sequence[str], *, least: float = 0.05, title: str = "who attends to whom") -> Figure:
    """Draw an arc from each query to its keys (t, t), as thick as the weight; weights below `least` are left out.

    Attention to earlier tokens runs above the line, to later tokens below it; a dot is a token's weight on itself.
    """
    weights = array(A, "A", 2)
    n = len(tokens)
    if weights.shape != (n, n):
        raise ShapeError(f"weights have shape {weights.shape} for {n} tokens", "give a row and a column for each")
    if not least > 0:
        raise InputError(f"least must be above 0, got {least}", "choose the weight below which arcs are omitted")
    shown = strongest(weights, least)
    back, ahead = (max((side * (i - j) for i, j in shown), default=0) for side in (1, -1))
    names = [shorten_label(token) for token in tokens]
    width = max(5.0, min(WIDEST, 0.5 * n + 0.6))
    unit = (width - 0.4) / n
    letters = max(map(len, names)) * SIZE * LETTER / 72
    rotated = letters > 0.95 * unit
    gap = 0.06 + (letters if rotated else SIZE * LINE / 72) / 2
    up, down = (min(HIGHEST, reach / 2 * unit) for reach in (back, ahead))  # half circles, unless limited by height
    below, above = gap + (down + 0.08 if ahead else 0), gap + max(up, 0.1) + 0.3
    fig = figure(width, below + above + 0.35)
    ax = fig.subplots()
    for i, j in shown:
        high, reach, side = (up, back, 1) if j <= i else (down, ahead, -1)
        _arc(ax, i, j, float(weights[i, j]), side * gap, 2 * high / max(reach, 1))
    step = math.ceil(SIZE * LINE / 72 / unit) if rotated else 1
    for place in range(0, n, step):
        ax.text(place, 0, names[place], ha="center", va="center", fontsize=SIZE, rotation=90 if rotated else 0)
    ax.set(xlim=(-0.7, n - 0.3), ylim=(-below, above))
    ax.set_axis_off()
    ax.set_title(f"{shorten_label(title, 70)} (weights of {least:g} and more)", fontsize=10)
    note = "looking back above" + (", looking ahead below" if ahead else "") + "; a dot: at itself"
    ax.text(1, 1, note, transform=ax.transAxes, ha="right", va="top", fontsize=7, color="#444444")
    return fig


def strongest(weights: Array, least: float) -> list[tuple[int, int]]:
    """Return the pairs (query, key) to draw, weakest first so that the strongest are drawn on top."""
    pairs = np.argwhere(weights >= least)
    order = np.argsort(weights[tuple(pairs.T)], kind="stable")[-MOST_ARCS:]
    return [(int(i), int(j)) for i, j in pairs[order]]


def _arc(ax: Axes, i: int, j: int, weight: float, base: float, stretch: float) -> None:
    share = min(1.0, weight)
    if i == j:
        ax.plot(i, base, "o", color=LINES[0], markersize=2 + 9 * share, alpha=0.8, zorder=3)
        return
    start = 0 if j < i else 180
    ax.add_patch(
        Arc(
            ((i + j) / 2, base),
            abs(i - j),
            abs(i - j) * stretch,
            theta1=start,
            theta2=start + 180,
            lw=0.4 + 5 * share,
            color=LINES[0],
            alpha=0.25 + 0.7 * share,
        )
    )
