"""Golden pictures, compared by their mean difference: a letter may move by a pixel between versions of matplotlib."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from glassformer.figures import to_bytes

PICTURES = Path(__file__).parent.parent / "golden" / "figures"
TOLERANCE = 1.5  # of 255, the mean over all pixels and colours


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.float64)


@pytest.fixture
def golden_picture() -> Callable[[str, Figure], None]:
    """`golden_picture("name", fig)`: like golden/figures/name.png, which `make golden` rewrites."""

    def compare(name: str, fig: Figure) -> None:
        made, path = to_bytes(fig, dpi=50, few_colours=True), PICTURES / f"{name}.png"
        if os.environ.get("GLASSFORMER_GOLDEN") == "rewrite":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made)
        assert path.exists(), f"no golden picture {name}: run make golden"
        old, new = pixels(path.read_bytes()), pixels(made)
        assert old.shape == new.shape, f"{name} has another size: if that is meant, run make golden"
        apart = np.abs(old - new).mean()
        assert apart <= TOLERANCE, f"{name} differs by {apart:.2f}: look at it, and if that is meant, run make golden"

    return compare


@pytest.fixture
def labels_of() -> Callable[[Axes, str], list[str]]:
    """The labels that an axis shows once drawn; none may touch another."""

    def read(ax: Axes, axis: str) -> list[str]:
        fig = ax.get_figure(root=True)
        fig.draw_without_rendering()
        target = ax.xaxis if axis == "x" else ax.yaxis
        renderer = fig.canvas.get_renderer()
        shown = [text for text in target.get_ticklabels() if text.get_visible() and text.get_text()]
        boxes = [text.get_window_extent(renderer) for text in shown]
        for (one, a), (other, b) in itertools.combinations(zip(shown, boxes, strict=True), 2):
            assert not a.overlaps(b), f"{one.get_text()!r} touches {other.get_text()!r}"
        return [text.get_text() for text in shown]

    return read


@pytest.fixture
def weights() -> Callable[..., np.ndarray]:
    """Rows that sum to 1, from a seed: `weights(h, t, s, causal=True)`."""

    def make(*shape: int, causal: bool = False, sharp: float = 2.0) -> np.ndarray:
        S = sharp * np.random.default_rng(7).normal(size=shape)
        if causal:
            S = np.where(np.tril(np.ones(shape[-2:], dtype=bool)), S, -np.inf)
        e = np.exp(S - S.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return make
