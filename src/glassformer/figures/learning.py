"""Training curves: loss and learning rate by step, and metrics on held-out data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.labels import shorten_label
from glassformer.figures.style import DASHES, LINES, MARKERS, array, figure

Curve = tuple[ArrayLike, ArrayLike]  # steps, values


def learning_curves(
    loss: Curve,
    rate: Curve,
    held_out: Mapping[str, Curve] | None = None,
    *,
    val_loss: Curve | None = None,
    title: str = "training",
) -> Figure:
    """Draw curves of (steps, values): the losses with the learning rate behind them, then a panel per held-out metric.

    `val_loss` is drawn over the training loss.
    """
    held = dict(held_out or {})
    fig = figure(4.6 * min(3, 1 + len(held)), 3.2 * -(-(1 + len(held)) // 3))
    grid = fig.subplots(-(-(1 + len(held)) // 3), min(3, 1 + len(held)), squeeze=False)
    panels: list[Axes] = list(grid.ravel())
    steps, values = _curve(rate, "rate")
    rates = panels[0].twinx()
    rates.plot(steps, values, color="#999999", lw=1, ls=":")
    rates.set_ylabel("rate (dotted)", fontsize=8)
    rates.tick_params(labelsize=7)
    rates.set_ylim(bottom=0)
    _draw(panels[0], "loss", *_curve(loss, "loss"), 0)
    if val_loss is not None:
        _draw(panels[0], "loss", *_curve(val_loss, "val_loss"), 1)
        training, validation = panels[0].get_lines()
        panels[0].legend([training, validation], ["training", "validation"], fontsize=7, frameon=False)
    for i, (name, curve) in enumerate(held.items(), 1):
        _draw(panels[i], name, *_curve(curve, name), i)
    for ax in panels[1 + len(held) :]:
        ax.set_axis_off()
    fig.suptitle(shorten_label(title, 80), fontsize=10)
    return fig


def _draw(ax: Axes, name: str, steps: ArrayLike, values: ArrayLike, k: int) -> None:
    few = len(np.asarray(steps)) <= 40
    mark = MARKERS[k % len(MARKERS)] if few else None
    ax.plot(steps, values, color=LINES[k % len(LINES)], ls=DASHES[0], lw=1.4, marker=mark, ms=3)
    ax.set_xlabel("step", fontsize=8)
    ax.set_ylabel(shorten_label(name, 30), fontsize=8)
    ax.tick_params(labelsize=7)
    ax.spines["top"].set_visible(False)


def _curve(curve: Curve, name: str) -> tuple[ArrayLike, ArrayLike]:
    steps, values = array(curve[0], f"steps of {name}", 1), array(curve[1], name, 1)
    if len(steps) != len(values):
        raise ShapeError(f"{name} has {len(values)} values at {len(steps)} steps", "give one for each")
    return steps, values
