"""One number per head, layers down and heads across: what heads do, and how much patching them recovers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.labels import label_axis, shorten_label
from glassformer.figures.style import (
    DIVERGING,
    SEQUENTIAL,
    Array,
    array,
    draw_cells,
    figure,
    ink,
    mark_negative,
    scale_of,
    short_number,
)

WRITTEN = 24  # columns up to which each cell shows its number


def head_table(
    scores: ArrayLike,
    labels: Sequence[Sequence[str]] | None = None,
    layers: Sequence[str] | None = None,
    *,
    measure: str = "score",
    title: str = "heads",
) -> Figure:
    """Draw what each head does (layers × heads): its label in the cell (its number if there is none), score as colour.

    Layers with fewer heads are padded with NaN, which is hatched.
    """
    numbers = array(scores, "scores", 2, missing=True)
    if labels is not None and [len(row) for row in labels] != [numbers.shape[1]] * len(numbers):
        fact = f"there are labels for {[len(row) for row in labels]} heads, and scores of shape {numbers.shape}"
        raise ShapeError(fact, "give one for each head of each layer, empty where there is none")
    texts = None if labels is None else [["\n".join(_lines(text)) for text in row] for row in labels]
    low, high = scale_of(numbers)
    return _grid(numbers, texts, layers, None, (low, high), SEQUENTIAL, measure, title)


def patching_sweep(
    recovered: ArrayLike,
    layers: Sequence[str] | None = None,
    places: Sequence[str] | None = None,
    *,
    title: str = "how much of the clean answer each patch brings back",
) -> Figure:
    """Draw the recovered fraction (layers × heads or positions): 0 is none, 1 the whole answer, below 0 is harmful.

    NaN marks cells without a value.
    """
    numbers = array(recovered, "recovered", 2, missing=True)
    most = max(1e-12, float(np.nanmax(np.abs(numbers))))
    return _grid(numbers, None, layers, places, (-most, most), DIVERGING, "recovered", title)


def _lines(text: str, width: int = 11) -> list[str]:
    found = textwrap.wrap(text.replace(", ", ","), width)[:2]
    return [shorten_label(line, width) for line in found]


def _grid(
    numbers: Array,
    texts: Sequence[Sequence[str]] | None,
    layers: Sequence[str] | None,
    places: Sequence[str] | None,
    scale: tuple[float, float],
    cmap: str,
    measure: str,
    title: str,
) -> Figure:
    rows, columns = numbers.shape
    width = 0.42 if texts is None else 0.8
    fig = figure(min(12.0, max(3.0, width * columns)) + 2.4, min(9.0, max(1.2, 0.36 * rows)) + 1.2)
    ax = fig.subplots()
    image = draw_cells(ax, numbers, *scale, cmap=cmap)
    label_axis(ax, "y", layers, rows, most=32)
    label_axis(ax, "x", places, columns)
    ax.set_ylabel("" if layers else "layer")
    ax.set_xlabel("" if places else "head")
    ax.set_title(shorten_label(title, 80), fontsize=10)
    fig.colorbar(image, ax=ax, label=measure)
    if columns <= WRITTEN and rows <= WRITTEN:
        _write(image, numbers, texts)
    elif cmap == DIVERGING:
        mark_negative(image, numbers)
        ax.set_title(f"{shorten_label(title, 80)} (– below 0)", fontsize=10)
    return fig


def _write(image: AxesImage, numbers: Array, texts: Sequence[Sequence[str]] | None) -> None:
    for i, j in np.ndindex(numbers.shape):
        value = float(numbers[i, j])
        if np.isfinite(value):
            text = short_number(value) if texts is None else texts[i][j]
            size = 7.5 if texts is None else 6.5
            image.axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink(image, value), linespacing=1)
