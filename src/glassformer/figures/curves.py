"""Predicted against measured values, as a function of the size of a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.labels import shorten_label
from glassformer.figures.style import DASHES, LINES, MARKERS, array, figure


def sensitivity_curves(
    sizes: ArrayLike,
    predicted: ArrayLike,
    measured: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    margin: float | None = None,
    across: str = "size of the change",
    title: str = "predicted and measured",
) -> Figure:
    """Draw each of k quantities (k, n) over n sizes of a change: predictions as a line, measurements as markers.

    `margin` marks the size at which the largest weight moves to another key.
    """
    x = array(sizes, "sizes", 1)
    lines, marks = np.atleast_2d(array(predicted, "predicted", 1, 2)), np.atleast_2d(array(measured, "measured", 1, 2))
    if not lines.shape == marks.shape == (len(lines), len(x)):
        fact = f"predicted has shape {lines.shape} and measured {marks.shape} at {len(x)} sizes"
        raise ShapeError(fact, "give a row for each quantity and a column for each size")
    if names is not None and len(names) != len(lines):
        raise ShapeError(f"{len(names)} names for {len(lines)} quantities", "give one for each")
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    for k, (line, mark) in enumerate(zip(lines, marks, strict=True)):
        name = f"{shorten_label(names[k], 30)}: " if names else ""
        colour = LINES[k % len(LINES)]
        ax.plot(x, line, ls=DASHES[k % len(DASHES)], color=colour, lw=1.6, label=f"{name}predicted")
        ax.plot(x, mark, MARKERS[k % len(MARKERS)], color=colour, ms=5, mfc="white", label=f"{name}measured")
    if margin is not None:
        ax.axvline(margin, color="black", lw=1, ls=":", label="the largest weight moves")
    ax.axhline(0, color="#888888", lw=0.6, zorder=0)
    ax.set(xlabel=across, ylabel="change of A")
    ax.set_title(shorten_label(title, 80), fontsize=10)
    ax.tick_params(labelsize=8)
    ax.spines[["right", "top"]].set_visible(False)
    ax.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig
