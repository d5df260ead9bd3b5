from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from glassformer.errors import ShapeError
from glassformer.figures import heads_of_layer

TEXT = "The quick brown fox , who costs $5 , jumps over the lazy dog near the riverbank today ."
WORDS = TEXT.split()


def labels(fig: Figure, kind: str) -> list[str]:
    """Labels of one kind, none of which touches any other text or leaves the page."""
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    texts = [text for text in fig.axes[0].texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in texts]
    for (one, a), (other, b) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        assert not a.overlaps(b), f"{one.get_text()!r} touches {other.get_text()!r}"
    for box in boxes:
        assert fig.bbox.x0 <= box.x0 < box.x1 <= fig.bbox.x1
        assert fig.bbox.y0 <= box.y0 < box.y1 <= fig.bbox.y1
    bar = fig.axes[1].get_tightbbox()
    assert bar is not None
    assert bar.x1 <= fig.bbox.x1
    return [text.get_text() for text in texts if text.get_gid() == kind]


@pytest.mark.golden
def test_all_heads_of_a_layer(golden_picture, weights) -> None:
    A = weights(12, 19, 19, causal=True)
    fig = heads_of_layer(A, WORDS, WORDS, title="decoder.0.attention")
    ax, bar = fig.axes
    assert labels(fig, "title") == [f"head {i}" for i in range(12)]
    assert [(image.get_array() == A[i]).all() for i, image in enumerate(ax.images)] == [True] * 12
    assert {image.norm.vmax for image in ax.images} == {A.max()}  # one scale
    corners = [(image.get_extent()[0], image.get_extent()[3]) for image in ax.images]
    assert len(set(corners)) == 12
    shown = [word.replace("$", r"\$") for word in WORDS[::2]]
    assert labels(fig, "y") == shown * 2  # left of the first map of each row
    assert labels(fig, "x") == shown * 6  # under the maps of the last
    assert bar.get_ylabel() == "weight"
    golden_picture("heads_of_layer", fig)


@pytest.mark.parametrize("heads", [1, 2, 5, 7, 16])
@pytest.mark.parametrize("size", [(1, 1), (20, 40), (197, 197)])
def test_any_number_of_heads_of_any_size(weights, heads: int, size: tuple[int, int]) -> None:
    fig = heads_of_layer(weights(heads, *size))
    assert len(labels(fig, "title")) == len(fig.axes[0].images) == heads
    assert labels(fig, "x")[0] == labels(fig, "y")[0] == "0"


def test_long_names_stay_on_the_page(weights) -> None:
    long = [f"antidisestablish{i}" for i in range(9)]
    fig = heads_of_layer(weights(6, 9, 9), long, long, title="x" * 200)
    assert labels(fig, "y")[0] == "antidisestabl…"


def test_masked_scores_are_hatched() -> None:
    S = np.where(np.tril(np.ones((2, 4, 4), dtype=bool)), 1.0, -np.inf)
    ax, bar = heads_of_layer(S).axes
    assert [bool(patch.get_hatch()) for patch in ax.patches] == [True, False, True, False]  # and the frames
    assert (np.ma.getmaskarray(ax.images[0].get_array()) == np.isneginf(S[0])).all()
    assert bar.get_ylabel() == "score"


def test_mistakes(refused) -> None:
    refused(ShapeError, "A has 2 axes", lambda: heads_of_layer(np.eye(2)))
    refused(ShapeError, "1 labels for 2 columns", lambda: heads_of_layer(np.ones((1, 2, 2)), None, ["a"]))
