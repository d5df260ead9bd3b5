"""Weights as maps: one head, all heads of a layer, an alignment, arcs between tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Arc
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.style import LINES, SEQUENTIAL, Array, array, clip, figure, label_axis, shrink

WRITTEN = 12  # up to so many rows and columns, each cell shows its number


def attention_map(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = "A"
) -> Figure:
    """A of one head (t, s): a row for each query, a column for each key, the number in each cell where it fits."""
    weights = array(A, "A", 2)
    t, s = weights.shape
    fig, ax = figure(_side(s) + 1.2, _side(t) + 0.6)
    image = draw_map(ax, weights, queries, keys)
    ax.set_title(title)
    ax.set_xlabel("key")
    ax.set_ylabel("query")
    fig.colorbar(image, ax=ax, shrink=0.8, label="weight")
    return fig


def draw_map(
    ax: Axes, A: Array, queries: Sequence[str] | None, keys: Sequence[str] | None, *, top: float | None = None
) -> AxesImage:
    """The map itself, on axes that are there; `top` is the weight at the end of the scale."""
    t, s = A.shape
    small, down, across = shrink(A)
    top = float(small.max()) if top is None else top
    scale = Normalize(0, max(top, 1e-12))
    image = ax.imshow(small, cmap=SEQUENTIAL, norm=scale, aspect="auto", interpolation="nearest")
    label_axis(ax, "y", queries, t, down)
    label_axis(ax, "x", keys, s, across)
    if max(t, s) <= WRITTEN:
        for i, j in np.ndindex(t, s):
            ink = "white" if A[i, j] < 0.55 * top else "black"
            ax.text(j, i, f"{A[i, j]:.2f}".replace("0.", "."), ha="center", va="center", color=ink, fontsize=8)
    return image


def _side(n: int) -> float:
    return min(8.0, max(2.4, 0.42 * n))


def heads_of_layer(
    A: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = ""
) -> Figure:
    """Every head of a layer (h, t, s) side by side on one scale; labels on the outer maps only."""
    weights = array(A, "A", 3)
    count = len(weights)
    columns = min(4, count)
    rows = math.ceil(count / columns)
    fig, axes = figure(2.6 * columns + 0.8, 2.5 * rows + 0.5, rows=rows, columns=columns)
    flat = np.atleast_1d(axes).ravel()
    top = float(weights.max())
    for ax in flat[count:]:
        ax.set_axis_off()
    for head, ax in enumerate(flat[:count]):
        image = draw_map(ax, weights[head], queries, keys, top=top)
        ax.set_title(f"head {head}", fontsize=9)
        if head % columns:
            ax.set_yticklabels([])
        if head + columns < count:
            ax.set_xticklabels([])
    fig.suptitle(title)
    fig.colorbar(image, ax=list(flat), shrink=0.7, label="weight")
    return fig


def alignment(A: ArrayLike, source: Sequence[str], target: Sequence[str], *, title: str = "alignment") -> Figure:
    """Cross-attention of a translation: each target word's row, its strongest source word framed."""
    weights = array(A, "A", 2)
    fig = attention_map(weights, target, source, title=title)
    ax = fig.axes[0]
    ax.set_xlabel("source")
    ax.set_ylabel("target")
    if max(weights.shape) <= 64:
        best = weights.argmax(1)
        ax.plot(best, np.arange(len(best)), "s", markersize=9, mfc="none", mec="white", mew=1.4)
    return fig


def arcs(A: ArrayLike, tokens: Sequence[str], *, least: float = 0.05, title: str = "who attends to whom") -> Figure:
    """Self-attention as arcs between the words of a line: from each query to its keys, as thick as the weight.

    Looking back runs above the line, looking ahead below it; a dot is a token's weight on itself.
    """
    weights = array(A, "A", 2)
    n = len(tokens)
    if weights.shape != (n, n):
        raise ShapeError(f"weights of shape {weights.shape} for {n} tokens", "give a row and a column for each")
    fig, ax = figure(max(4.0, min(16.0, 0.62 * n + 1)), 3.6)
    for i, j in zip(*np.nonzero(weights >= least), strict=True):
        weight = float(weights[i, j])
        if i == j:
            ax.plot(i, 0, "o", color=LINES[0], markersize=2 + 9 * weight, alpha=0.8)
            continue
        start = 0 if j < i else 180
        width, height = abs(i - j), min(abs(i - j), 0.9 * n)
        ax.add_patch(
            Arc(
                ((i + j) / 2, 0),
                width,
                height,
                theta1=start,
                theta2=start + 180,
                lw=0.4 + 5 * weight,
                color=LINES[0],
                alpha=0.25 + 0.7 * weight,
            )
        )
    reach = max(1.2, min(n, 0.9 * n) / 2)
    ax.set_xlim(-0.7, n - 0.3)
    ax.set_ylim(-reach if np.triu(weights, 1).max(initial=0) >= least else -0.6, reach)
    ax.set_xticks(range(n), [clip(token) for token in tokens], rotation=90 if n > 12 else 0)
    ax.set_yticks([])
    ax.set_title(title)
    ax.spines[["left", "right", "top"]].set_visible(False)
    return fig
