"""Attention weights over an input: patches of an image, frames of a spectrogram."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import InputError, ShapeError
from glassformer.figures.labels import label_axis, shorten_label
from glassformer.figures.style import LINES, MOST_CELLS, Array, array, draw_cells, figure, scale_of, shrink

DIMMED = 0.2  # brightness of the image where the weight is 0
HALF = 0.5  # fraction of the total weight inside the outline


def image_overlay(
    image: ArrayLike, weights: ArrayLike, names: Sequence[str] | None = None, *, title: str = "where it looks"
) -> Figure:
    """Draw an image (rows, cols[, 3]) from 0 to 1, and again lit by the weights of its patches ([heads,] rows, cols).

    Weights are shown as brightness, which survives greyscale printing. The outline encloses half of the weight.
    """
    picture, patches = array(image, "image", 2, 3), array(weights, "weights", 2, 3)
    if picture.ndim == 3 and picture.shape[2] not in (1, 3):
        raise ShapeError(f"the image has shape {picture.shape}", "give (rows, columns) or (rows, columns, 3)")
    if picture.min() < 0 or picture.max() > 1:
        raise InputError(f"colours range from {picture.min():g} to {picture.max():g}", "give them from 0 to 1")
    if patches.min() < 0 or patches.max() <= 0:
        raise InputError(f"weights range from {patches.min():g} to {patches.max():g}", "give weights of at least 0")
    layers = patches if patches.ndim == 3 else patches[None]
    if names is not None and len(names) != len(layers):
        raise ShapeError(f"{len(names)} names for {len(layers)} maps of weights", "give one for each")
    picture = _subsampled(picture if picture.ndim == 3 else picture[..., None].repeat(3, 2))
    picture = picture.repeat(3, 2) if picture.shape[2] == 1 else picture
    fig, axes = _panels(len(layers) + 1, picture.shape[0] / picture.shape[1])
    axes[0].imshow(picture)
    axes[0].set_title("the picture", fontsize=9)
    for i, ax in enumerate(axes[1:]):
        _draw_lit(ax, picture, layers[i])
        ax.set_title(
            shorten_label(names[i], 24) if names else f"head {i}" if patches.ndim == 3 else "lit by weight", fontsize=9
        )
    wide, high = fig.get_size_inches().tolist()
    fig.text(0.5, 1 - 0.08 / high, shorten_label(title, 80), fontsize=10, ha="center", va="top")
    bar = fig.add_axes((1 - 0.8 / wide, 0.15, 0.15 / wide, 0.6))
    fig.colorbar(ScalarMappable(Normalize(0, 1), "gray"), cax=bar, label="weight / largest")
    bar.tick_params(labelsize=7)
    return fig


def _panels(count: int, ratio: float) -> tuple[Figure, list[Axes]]:
    """Compute the layout of panels for images of this height-to-width ratio, faster than matplotlib's layout engine."""
    columns = min(count, 5)
    side = 3.0 if count <= 3 else 1.9
    tall = side * min(1.6, max(0.4, ratio))
    wide, high = (side + 0.1) * columns + 1.0, (tall + 0.3) * math.ceil(count / columns) + 0.4
    fig = figure(wide, high)
    fig.set_layout_engine("none")
    axes = []
    for i in range(count):
        x, y = 0.1 + i % columns * (side + 0.1), high - 0.6 - i // columns * (tall + 0.3) - tall
        axes.append(fig.add_axes((x / wide, y / high, side / wide, tall / high)))
        axes[-1].set_axis_off()
    return fig, axes


def _draw_lit(ax: Axes, picture: Array, weights: Array) -> None:
    share = weights / max(float(weights.max()), 1e-300)
    high, wide = picture.shape[:2]
    y, x = (np.arange(n) * k // n for n, k in zip((high, wide), weights.shape, strict=True))
    light = (DIMMED + (1 - DIMMED) * share)[np.ix_(y, x)]
    ax.imshow(picture * light[..., None])
    lines = np.array(outline(share >= _half_level(weights))) * (wide / weights.shape[1], high / weights.shape[0]) - 0.5
    for colour, width in (("black", 2.4), ("white", 1.1)):  # visible on every colour
        ax.add_collection(LineCollection(list(lines), colors=colour, linewidths=width, capstyle="projecting"))


def _half_level(weights: Array) -> float:
    """Return the threshold, relative to the largest weight, above which patches have half of the total weight."""
    ordered = np.sort(weights, axis=None)[::-1]
    enough = int(np.searchsorted(ordered.cumsum(), HALF * ordered.sum()))
    return float(ordered[min(enough, ordered.size - 1)] / ordered[0])


def outline(inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[list[tuple[int, int]]]:
    """Return the edges (x, y) between cells inside and cells outside."""
    padded = np.pad(inside, 1)
    rows, columns = (np.argwhere(np.diff(padded, axis=axis)) for axis in (0, 1))
    return [[(x - 1, y), (x, y)] for y, x in rows.tolist()] + [[(x, y - 1), (x, y)] for y, x in columns.tolist()]


def _subsampled(picture: Array, most: int = 384) -> Array:
    """Subsample the image to the number of pixels a panel has."""
    step = math.ceil(max(picture.shape[:2]) / most)
    return picture[::step, ::step]


def spectrogram_attention(
    frames: ArrayLike,
    A: ArrayLike,
    *,
    query: int | None = None,
    seconds: float = 0.04,
    title: str = "what is listened to",
) -> Figure:
    """Draw audio frames (t, bands) above the weights (h, s) of one query in each head, on a shared time axis.

    `seconds` is the duration of one key; the query's own position is marked.
    """
    sound, weights = array(frames, "frames", 2), array(A, "A", 2)
    heads, keys = weights.shape
    if query is not None and not 0 <= query < keys:
        raise InputError(f"there is no query {query}", f"they are 0 to {keys - 1}")
    if not seconds > 0:
        raise InputError(f"seconds must be above 0, got {seconds}", "give the duration of one key")
    total = keys * seconds
    fig = figure(8.0, 2.4 + min(3.0, max(0.8, 0.28 * heads)) + 0.8)
    top, ax = fig.subplots(2, 1, sharex=True, height_ratios=(2.4, min(3.0, max(0.8, 0.28 * heads))))
    step = math.ceil(len(sound) / (2 * MOST_CELLS))
    top.imshow(sound[::step].T, origin="lower", aspect="auto", cmap="gray", extent=(0, total, 0, sound.shape[1]))
    top.set_ylabel("band")
    top.set_title(shorten_label(title, 80), fontsize=10)
    small, _, _ = shrink(weights)
    image = draw_cells(ax, small, *scale_of(small))
    image.set_extent((0, total, len(small) - 0.5, -0.5))
    label_axis(ax, "y", None, heads)
    ax.set_ylabel("head")
    ax.set_xlabel("seconds")
    for each in (top, ax):
        each.tick_params(labelsize=8)
        if query is not None:
            for width, colour in ((3.0, "white"), (1.4, LINES[1])):
                each.axvline((query + 0.5) * seconds, color=colour, lw=width, ls="-" if width > 2 else "--")
    fig.colorbar(image, ax=ax, label="weight")
    return fig
