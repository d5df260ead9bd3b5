"""Shared by all figures: array validation, sizes, colour scales, notebook display and file output."""

from __future__ import annotations

import io
import math
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from glassformer.errors import InputError, ShapeError

# cividis increases evenly in lightness, which preserves order in greyscale print and for every kind of colour vision.
SEQUENTIAL = "cividis"
# orange to purple around a light centre; in greyscale print lightness shows the magnitude, and numbers show the sign.
DIVERGING = "PuOr_r"
LINES = ("#003f5c", "#d45087", "#ffa600", "#2f9e8f", "#6b5b95", "#8c564b")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHED: dict[str, Any] = {"facecolor": "#c4c4c4", "edgecolor": "#8a8a8a", "hatch": "////", "linewidth": 0}  # masked
MOST_CELLS = 1024  # per side; larger maps are averaged in blocks, since no page has more pixels
MANY = 64 * 64
DPI = 110
Array = NDArray[np.floating[Any]]


class NotebookFigure(Figure):
    """A matplotlib figure that displays itself in a notebook, whatever the backend."""

    def _repr_png_(self) -> bytes:
        return to_bytes(self)


def figure(width: float, height: float) -> Figure:
    """Create an empty figure that is not attached to a window."""
    fig = NotebookFigure(figsize=(width, height), layout="constrained", dpi=DPI)
    FigureCanvasAgg(fig)
    return fig


def array(values: ArrayLike, name: str, *dims: int, masked: bool = False, missing: bool = False) -> Array:
    """Validate values as a finite array whose ndim is one of `dims`; `masked` allows −∞, `missing` allows NaN."""
    out = as_floats(values, name)
    if out.ndim not in dims:
        raise ShapeError(f"{name} has {out.ndim} axes, {tuple(out.shape)}", f"give {' or '.join(map(str, dims))}")
    if out.size == 0:
        raise ShapeError(f"{name} is empty, {tuple(out.shape)}", "give at least one number")
    finite = np.isfinite(out)
    if finite.all():
        return out
    good = finite | (np.isneginf(out) & masked) | (np.isnan(out) & missing)
    if not good.all():
        raise InputError(f"{name} contains {out[~good][0]}", "give finite numbers")
    if not finite.any():
        raise InputError(f"{name} contains only {out.flat[0]}", "give at least one finite number")
    return out


def as_floats(values: ArrayLike, name: str) -> Array:
    """Convert lists, arrays and tensors to floats; tensors are detached and moved to the CPU."""
    leave = getattr(values, "detach", None)
    if leave is not None:
        values = leave().cpu()
        if str(getattr(values, "dtype", "")) not in ("torch.float32", "torch.float64"):
            values = values.double()  # type: ignore[union-attr]
    try:
        out = np.asarray(values)
        return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers", "give rows of equal length") from None


def shrink(A: Array) -> tuple[Array, int, int]:
    """Average blocks so that neither side exceeds the pixels of a page; also return the height and width of a block.

    Masked (non-finite) values are ignored: a block is masked only if all of its values are.
    """
    down, across = (math.ceil(n / MOST_CELLS) for n in A.shape)
    if down == across == 1:
        return A, 1, 1
    finite = np.isfinite(A)
    if finite.all():
        high, wide = (_sizes(n, k) for n, k in zip(A.shape, (down, across), strict=True))
        return _blocks(A, down, across) / np.outer(high, wide), down, across
    count = _blocks(finite, down, across)
    total = _blocks(np.where(finite, A, 0), down, across)
    return np.where(count > 0, total / np.maximum(count, 1), -np.inf), down, across


def _blocks(A: NDArray[Any], down: int, across: int) -> Array:
    """Sum over blocks, rows first since they are contiguous in memory; the last block may be smaller."""
    kind = np.int32 if A.dtype == np.bool_ else A.dtype
    rows = np.add.reduceat(A, np.arange(0, A.shape[0], down), axis=0, dtype=kind)
    return np.add.reduceat(rows, np.arange(0, A.shape[1], across), axis=1, dtype=np.float64)


def _sizes(n: int, block: int) -> NDArray[np.intp]:
    return np.diff(np.append(np.arange(0, n, block), n))


def scale_of(A: Array) -> tuple[float, float]:
    """Return the colour limits: from 0 to the maximum for weights, from the minimum if some are negative (scores).

    In large maps the largest 0.5 % of weights share the last colour, so that a single one does not darken the rest.
    """
    finite = A[np.isfinite(A)]
    low, high = min(0.0, float(finite.min())), float(finite.max())
    if low == 0 and A.shape[-1] * A.shape[-2] > MANY:
        high = max(high / 20, float(np.quantile(finite, 0.995)))
    return (low, high) if high > low else (low, low + 1e-12)


def draw_cells(
    ax: Axes, A: Array, low: float, high: float, *, cmap: str = SEQUENTIAL, aspect: Literal["auto", "equal"] = "auto"
) -> AxesImage:
    """Draw numbers as colours; masked and missing values are hatched grey."""
    ax.patch.set(**HATCHED)
    shown = np.ma.masked_invalid(A)
    return ax.imshow(
        shown, cmap=colours(cmap), norm=Normalize(low, high), aspect=aspect, interpolation="nearest", zorder=1
    )


def colours(name: str) -> Colormap:
    return colormaps[name].with_extremes(bad=(0, 0, 0, 0))


def ink(image: AxesImage, value: float) -> str:
    """Return black or white, whichever is more legible on the colour of a value."""
    red, green, blue, _ = image.to_rgba(np.array([value]))[0].tolist()
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "white"


def mark_negative(image: AxesImage, A: Array) -> None:
    """Mark clearly negative cells with a dash where numbers do not fit: in greyscale both signs look alike."""
    least = image.get_clim()[0]
    if A.size > MANY:
        return
    for low, high, colour in ((least, 0.55 * least, "white"), (0.55 * least, 0.15 * least, "black")):
        rows, columns = np.nonzero((low <= A) & (high > A))
        image.axes.plot(columns, rows, "_", ms=3.5, mew=0.9, color=colour, zorder=2)


def short_number(value: float) -> str:
    """Format a number with two digits and no leading 0: .25, −.50, 1.0, 12."""
    if abs(value) >= 9.95:
        return f"{value:.0f}".replace("-", "−")
    if abs(value) >= 0.995:
        return f"{value:.1f}".replace("-", "−")
    text = f"{abs(value):.2f}".removeprefix("0")
    return text if value >= 0 or text == ".00" else f"−{text}"


def to_bytes(fig: Figure, kind: str = "png", *, dpi: float = DPI, few_colours: bool = False) -> bytes:
    """Return the figure as PNG or SVG bytes without dates or random ids, so that equal figures give equal files.

    `few_colours` writes a PNG with 256 colours, at a third of the size.
    """
    if kind not in ("png", "svg"):
        raise InputError(f"a figure cannot be saved as {kind!r}", "choose png or svg")
    buffer = io.BytesIO()
    if kind == "svg":
        with rc_context({"svg.hashsalt": "glassformer"}):
            fig.savefig(buffer, format="svg", metadata={"Date": None})
    else:
        picture = _drawn(fig, dpi)
        (_few_colours(picture) if few_colours else picture).save(buffer, format="png", dpi=(dpi, dpi))
    return buffer.getvalue()


def _drawn(fig: Figure, dpi: float) -> Image.Image:
    """Render the figure once; savefig draws twice, the first time for layout."""
    old = fig.dpi
    try:
        fig.dpi = dpi
        canvas = FigureCanvasAgg(fig)
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    finally:
        fig.dpi = old


def _few_colours(picture: Image.Image) -> Image.Image:
    few = picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    paper, palette = int(np.asarray(few)[0, 0]), few.getpalette() or []
    if np.asarray(picture)[0, 0].min() == 255:
        palette[3 * paper : 3 * paper + 3] = [255] * 3  # the nearest palette colour may be grey
        few.putpalette(palette)
    return few
