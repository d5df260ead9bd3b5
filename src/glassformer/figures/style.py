"""What every picture shares: a size that fits its content, one scale of colours, labels that do not collide."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from glassformer.errors import InputError, ShapeError

# cividis rises evenly in lightness: the order of values survives grey print and every kind of colour vision.
SEQUENTIAL = "cividis"
# blue against orange around a light middle; the sign is also written in the cells where there is room.
DIVERGING = "PuOr"
LINES = ("#003f5c", "#d45087", "#ffa600", "#2f9e8f", "#6b5b95", "#8c564b")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MOST_CELLS = 1024  # per side; more are averaged in blocks, since no page has more pixels
MOST_LABELS = 48
Array = NDArray[np.float64]


def figure(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """An empty figure that belongs to no window, and its axes: one, or an array of them."""
    fig = Figure(figsize=(width, height), layout="constrained", dpi=110)
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, squeeze=rows * columns == 1)


def array(values: ArrayLike, name: str, dims: int) -> Array:
    """The values as numbers of so many axes, all finite; −∞ of masked scores must be dealt with before."""
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != dims:
        raise ShapeError(f"{name} has {out.ndim} axes, {tuple(out.shape)}", f"give {dims}")
    if out.size == 0:
        raise ShapeError(f"{name} is empty", "give at least one number")
    if not np.isfinite(out).all():
        raise InputError(f"{name} holds {out[~np.isfinite(out)][0]}", "draw finite numbers")
    return out


def shrink(A: Array) -> tuple[Array, int, int]:
    """Blocks averaged so that neither side is longer than a page has pixels; and the block's sides."""
    down, across = (math.ceil(n / MOST_CELLS) for n in A.shape)
    if down == across == 1:
        return A, 1, 1
    padded = np.pad(A, ((0, -A.shape[0] % down), (0, -A.shape[1] % across)), constant_values=np.nan)
    blocks = padded.reshape(padded.shape[0] // down, down, padded.shape[1] // across, across)
    return np.nanmean(blocks, axis=(1, 3)), down, across


def label_axis(ax: Axes, axis: Literal["x", "y"], labels: Sequence[str] | None, n: int, block: int = 1) -> None:
    """Token labels where they fit, every k-th of them where they do not; positions where there are none."""
    step = max(1, math.ceil(n / MOST_LABELS))
    places = list(range(0, n, step))
    if labels is not None and len(labels) != n:
        raise ShapeError(f"{len(labels)} labels for {n} {'rows' if axis == 'y' else 'columns'}", "give one for each")
    texts = [str(place) if labels is None else clip(labels[place]) for place in places]
    at = [(place - (block - 1) / 2) / block for place in places]
    if axis == "y":
        ax.set_yticks(at, texts)
    else:
        upright = labels is None and n <= MOST_LABELS
        ax.set_xticks(at, texts, rotation=0 if upright else 90)
    ax.tick_params(axis=axis, labelsize=max(5.0, min(9.0, 260 / max(len(places), 1))), length=2)


def clip(text: str, most: int = 14) -> str:
    """A label on one line; `$` would start a formula."""
    plain = text.replace("\n", "↵").replace("$", r"\$")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def save(fig: Figure, kind: str = "png") -> bytes:
    """The picture as bytes: png or svg. No date and no random ids, so that the same picture is the same file."""
    if kind not in ("png", "svg"):
        raise InputError(f"a picture cannot be saved as {kind!r}", "choose png or svg")
    buffer = io.BytesIO()
    fig.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return buffer.getvalue()
