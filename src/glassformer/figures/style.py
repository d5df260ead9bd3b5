"""What every picture shares: numbers that can be drawn, a size that fits them, one scale of colours, and files."""

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

# cividis rises evenly in lightness: the order of values survives grey print and every kind of colour vision.
SEQUENTIAL = "cividis"
# orange against purple around a light middle; grey print shows the size, and the numbers in the cells the sign.
DIVERGING = "PuOr_r"
LINES = ("#003f5c", "#d45087", "#ffa600", "#2f9e8f", "#6b5b95", "#8c564b")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHED: dict[str, Any] = {"facecolor": "#c4c4c4", "edgecolor": "#8a8a8a", "hatch": "////", "linewidth": 0}  # masked
MOST_CELLS = 1024  # per side; more are averaged in blocks, since no page has more pixels
MANY = 64 * 64
DPI = 110
Array = NDArray[np.floating[Any]]


def figure(width: float, height: float) -> Figure:
    """An empty figure that belongs to no window."""
    fig = Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    FigureCanvasAgg(fig)
    return fig


def array(values: ArrayLike, name: str, *dims: int, masked: bool = False, missing: bool = False) -> Array:
    """The values as numbers of so many axes (one of `dims`), all finite; `masked` allows −∞, `missing` NaN."""
    out = numbers(values, name)
    if out.ndim not in dims:
        raise ShapeError(f"{name} has {out.ndim} axes, {tuple(out.shape)}", f"give {' or '.join(map(str, dims))}")
    if out.size == 0:
        raise ShapeError(f"{name} is empty, {tuple(out.shape)}", "give at least one number")
    finite = np.isfinite(out)
    if finite.all():
        return out
    good = finite | (np.isneginf(out) & masked) | (np.isnan(out) & missing)
    if not good.all():
        raise InputError(f"{name} holds {out[~good][0]}", "draw finite numbers")
    if not finite.any():
        raise InputError(f"{name} has nothing but {out.flat[0]}", "give at least one finite number")
    return out


def numbers(values: ArrayLike, name: str) -> Array:
    """As floats, from lists, arrays and tensors; a tensor leaves its graph and its device."""
    leave = getattr(values, "detach", None)
    if leave is not None:
        values = leave().cpu()
        if str(getattr(values, "dtype", "")) not in ("torch.float32", "torch.float64"):
            values = values.double()  # type: ignore[union-attr]
    try:
        out = np.asarray(values)
        return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is no array of numbers", "give rows of one length") from None


def shrink(A: Array) -> tuple[Array, int, int]:
    """Blocks averaged so that neither side is longer than a page has pixels; and the block's sides.

    Of masked numbers (not finite) a block leaves out what it can: it is masked itself only if it holds nothing else.
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
    """Sums over blocks, rows first because they lie together in memory; the last block may be smaller."""
    kind = np.int32 if A.dtype == np.bool_ else A.dtype
    rows = np.add.reduceat(A, np.arange(0, A.shape[0], down), axis=0, dtype=kind)
    return np.add.reduceat(rows, np.arange(0, A.shape[1], across), axis=1, dtype=np.float64)


def _sizes(n: int, block: int) -> NDArray[np.intp]:
    return np.diff(np.append(np.arange(0, n, block), n))


def scale_of(A: Array) -> tuple[float, float]:
    """From 0 to the largest for weights; from the smallest where some are negative (scores).

    Of weights too many to be read one by one, the largest 0.5 % share the last colour, lest one of them darken all.
    """
    finite = A[np.isfinite(A)]
    low, high = min(0.0, float(finite.min())), float(finite.max())
    if low == 0 and A.shape[-1] * A.shape[-2] > MANY:
        high = max(high / 20, float(np.quantile(finite, 0.995)))
    return (low, high) if high > low else (low, low + 1e-12)


def cells(
    ax: Axes, A: Array, low: float, high: float, *, cmap: str = SEQUENTIAL, aspect: Literal["auto", "equal"] = "auto"
) -> AxesImage:
    """Numbers as colours; what is masked or missing is hatched grey."""
    ax.patch.set(**HATCHED)
    shown = np.ma.masked_invalid(A)
    return ax.imshow(
        shown, cmap=colours(cmap), norm=Normalize(low, high), aspect=aspect, interpolation="nearest", zorder=1
    )


def colours(name: str) -> Colormap:
    return colormaps[name].with_extremes(bad=(0, 0, 0, 0))


def ink(image: AxesImage, value: float) -> str:
    """Black or white, whichever is read better on the colour of a value."""
    red, green, blue, _ = image.to_rgba(np.array([value]))[0].tolist()
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "white"


def mark_negative(image: AxesImage, A: Array) -> None:
    """A dash on what is clearly below 0, where there is no room for numbers: in grey print both signs look alike."""
    least = image.get_clim()[0]
    if A.size > MANY:
        return
    for low, high, colour in ((least, 0.55 * least, "white"), (0.55 * least, 0.15 * least, "black")):
        rows, columns = np.nonzero((low <= A) & (high > A))
        image.axes.plot(columns, rows, "_", ms=3.5, mew=0.9, color=colour, zorder=2)


def short(value: float) -> str:
    """Two digits after the point, no 0 before it: .25, −.50, 1.0, 12."""
    if abs(value) >= 9.95:
        return f"{value:.0f}".replace("-", "−")
    if abs(value) >= 0.995:
        return f"{value:.1f}".replace("-", "−")
    text = f"{abs(value):.2f}".removeprefix("0")
    return text if value >= 0 or text == ".00" else f"−{text}"


def save(fig: Figure, kind: str = "png", *, dpi: float = DPI, few_colours: bool = False) -> bytes:
    """The picture as bytes: png or svg. No date and no random ids, so that the same picture is the same file.

    `few_colours` writes a png of 256 colours, a third of the size.
    """
    if kind not in ("png", "svg"):
        raise InputError(f"a picture cannot be saved as {kind!r}", "choose png or svg")
    buffer = io.BytesIO()
    if kind == "svg":
        with rc_context({"svg.hashsalt": "glassformer"}):
            fig.savefig(buffer, format="svg", metadata={"Date": None})
    else:
        picture = _drawn(fig, dpi)
        (_few_colours(picture) if few_colours else picture).save(buffer, format="png", dpi=(dpi, dpi))
    return buffer.getvalue()


def _drawn(fig: Figure, dpi: float) -> Image.Image:
    """Drawn once; savefig draws twice, the first time to measure."""
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
        palette[3 * paper : 3 * paper + 3] = [255] * 3  # the nearest of few colours may be a grey one
        few.putpalette(palette)
    return few
