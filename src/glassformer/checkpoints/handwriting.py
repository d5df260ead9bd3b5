"""Handwriting as MNIST was made: bright ink on black, scaled to 20 pixels and centred by mass in 28 × 28.

LeCun et al., "Gradient-based learning applied to document recognition", 1998, section III.A. Photographs and drawings
of either polarity come out alike: the background is estimated and subtracted, and thin strokes are thickened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

SIDE, BOX = 28, 20  # pixels of the result, and of the box that the ink is scaled to
WORKING = 400  # longest side of the image that the ink is looked for in
FAINT = 24  # grey levels of contrast below which there is no ink
WEAK = 0.35  # fraction of the strongest ink below which Otsu's threshold never falls: shadows are not ink
STROKE = 0.09  # stroke width of MNIST's digits, as a fraction of the box
Grey = NDArray[np.float64]


def normalize_handwriting(image: Image.Image) -> Image.Image:
    """Return a 28 × 28 grey image. One that is already in this form is returned unchanged."""
    image = image.convert("L")
    if image.size == (SIDE, SIDE) and is_normalized(np.asarray(image, dtype=np.float64)):
        return image
    if max(image.size) > WORKING:
        image = image.copy()
        image.thumbnail((WORKING, WORKING), Image.Resampling.BOX)
    ink = _ink(image)
    found = ink > 0
    if not found.any():
        return Image.new("L", (SIDE, SIDE))
    rows, columns = (np.flatnonzero(found.any(axis=axis)) for axis in (1, 0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return _centred(_scaled(_thickened(ink)))


def is_normalized(pixels: Grey) -> bool:
    """Return True for bright ink on black that fits the box and has its centre of mass within a pixel of the middle."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    if np.quantile(border, 0.8) > 0 or pixels.max() < 128:  # a stroke may reach the border
        return False
    rows, columns = (np.flatnonzero((pixels > 0).any(axis=axis)) for axis in (1, 0))
    longest = max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1
    centre = [float((pixels.sum(axis=axis) * np.arange(SIDE)).sum() / pixels.sum()) for axis in (1, 0)]
    return bool(BOX - 1 <= longest <= BOX and all(abs(at - SIDE / 2) <= 1.5 for at in centre))


def _ink(image: Image.Image) -> Grey:
    """Return the ink from 0 to 255: the difference from the background, above half of Otsu's threshold."""
    grey = np.asarray(image, dtype=np.float64)
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    dark_ink = np.median(border) > (grey.min() + grey.max()) / 2
    ink = _background(image) - grey if dark_ink else grey - np.median(border)
    ink = np.clip(ink, 0, None)
    if ink.max() < FAINT:
        return np.zeros_like(ink)
    threshold = max(otsu(ink), WEAK * float(ink.max()))
    strong = ink[ink > threshold]
    ink = np.where(ink > threshold / 2, ink, 0.0)
    ink = _largest(ink, threshold)
    return np.clip(ink * (255 / max(float(np.quantile(strong, 0.5)), 1.0)), 0, 255)


def _background(image: Image.Image) -> Grey:
    """Return paper without strokes: the maximum over a neighbourhood wider than a stroke, smoothed."""
    size = max(3, max(image.size) // 8)
    small = image.resize([max(1, side // 4) for side in image.size], Image.Resampling.BOX)
    closed = small.filter(ImageFilter.MaxFilter(size // 4 * 2 + 1)).filter(ImageFilter.GaussianBlur(size / 4))
    return np.asarray(closed.resize(image.size, Image.Resampling.BILINEAR), dtype=np.float64)


def otsu(values: Grey) -> float:
    """Return the threshold that maximises the variance between two classes (Otsu 1979)."""
    counts, edges = np.histogram(values, bins=256)
    middles = (edges[:-1] + edges[1:]) / 2
    below, total = np.cumsum(counts), counts.sum()
    weighted = np.cumsum(counts * middles)
    above = total - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (weighted / below - (weighted[-1] - weighted) / above) ** 2
    return float(middles[np.nanargmax(between)])


def _largest(ink: Grey, threshold: float) -> Grey:
    """Remove connected parts with less than a tenth of the ink of the largest one, such as specks."""
    from scipy import ndimage

    labels, count = ndimage.label(ink > 0, structure=np.ones((3, 3)))
    if count < 2:
        return ink
    sums: Any = ndimage.sum_labels(np.where(ink > threshold, ink, 0.0), labels, np.arange(1, count + 1))
    kept = np.flatnonzero(sums >= 0.1 * sums.max()) + 1
    return np.where(np.isin(labels, kept), ink, 0.0)


def _thickened(ink: Grey) -> Grey:
    """Dilate strokes that are thinner than MNIST's in proportion to the box; width ≈ 2 · area / perimeter."""
    mask = ink > 127
    inner = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    perimeter = max(1, int(mask.sum() - inner.sum()))
    missing = STROKE * max(ink.shape) - 2 * mask.sum() / perimeter
    radius = int(missing / 2)
    if radius < 1:
        return ink
    padded = Image.fromarray(np.pad(ink, radius).astype(np.uint8))
    return np.asarray(padded.filter(ImageFilter.MaxFilter(2 * radius + 1)), np.float64)


def _scaled(ink: Grey) -> Grey:
    """Scale the longer side to the box, with antialiasing."""
    factor = BOX / max(ink.shape)
    size = tuple(max(1, round(side * factor)) for side in ink.shape[::-1])
    filter_ = Image.Resampling.BOX if factor < 0.5 else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(ink.astype(np.uint8)).resize((size[0], size[1]), filter_), dtype=np.float64)


def _centred(ink: Grey) -> Image.Image:
    """Place the ink so that its centre of mass is in the middle, as far as it stays within the image."""
    page = np.zeros((SIDE, SIDE), np.uint8)
    starts = []
    for axis, length in enumerate(ink.shape):
        centre = float((ink.sum(axis=1 - axis) * np.arange(length)).sum() / max(ink.sum(), 1.0))
        starts.append(int(np.clip(round(SIDE / 2 - centre), 0, SIDE - length)))
    page[starts[0] : starts[0] + ink.shape[0], starts[1] : starts[1] + ink.shape[1]] = ink.round().astype(np.uint8)
    return Image.fromarray(page)
