"""S_i = β Σ_c q_c k_ic: the contribution of each coordinate to a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import InputError, ShapeError
from glassformer.figures.labels import label_axis, shorten_label
from glassformer.figures.style import (
    DIVERGING,
    LINES,
    array,
    draw_cells,
    figure,
    ink,
    mark_negative,
    short_number,
    shrink,
)


def score_by_coordinate(
    q: ArrayLike, K: ArrayLike, keys: Sequence[str] | None = None, *, beta: float = 1.0, title: str = "β q·k"
) -> Figure:
    """Draw β q_c k_ic for one query q (d) and its keys K (s, d): a row per key, and a bar for its sum, the score."""
    query, rows = array(q, "q", 1), array(K, "K", 2)
    if rows.shape[1] != len(query):
        raise ShapeError(
            f"q has {len(query)} coordinates and keys have {rows.shape[1]}", "give q and the keys the same width"
        )
    if not np.isfinite(beta):
        raise InputError(f"β is {beta}", "give a finite number")
    parts = beta * query * rows
    s, d = parts.shape
    fig = figure(min(9.0, max(2.4, 0.42 * d)) + 3.4, min(7.0, max(1.6, 0.36 * s)) + 1.2)
    ax, bars = fig.subplots(1, 2, sharey=True, width_ratios=(min(9.0, max(2.4, 0.42 * d)), 1.6))
    small, down, across = shrink(parts)
    most = max(1e-12, float(np.abs(small).max()))
    image = draw_cells(ax, small, -most, most, cmap=DIVERGING)
    label_axis(ax, "x", None, d, across)
    label_axis(ax, "y", keys, s, down)
    ax.set(xlabel="coordinate", ylabel="key")
    ax.set_title(shorten_label(title, 80), fontsize=10)
    if max(s, d) <= 12:
        for i, c in np.ndindex(s, d):
            part = float(parts[i, c])
            ax.text(c, i, short_number(part), ha="center", va="center", fontsize=8, color=ink(image, part))
    else:
        mark_negative(image, small)
        ax.set_title(f"{shorten_label(title, 80)} (– below 0)", fontsize=10)
    bars.barh(np.arange(len(small)), small.sum(1) * across, color=LINES[0], height=0.8)
    bars.axvline(0, color="black", lw=0.8)
    bars.tick_params(axis="y", labelleft=False, left=False)
    bars.tick_params(axis="x", labelsize=8, rotation=90)
    bars.set_title("score", fontsize=10)
    fig.colorbar(image, ax=bars, label="β q k", shrink=0.8)
    return fig
