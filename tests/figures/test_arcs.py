from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.patches import Arc

from glassformer.errors import InputError, ShapeError
from glassformer.figures import arcs
from glassformer.figures.arcs import MOST_ARCS

WORDS = ["The", "quick", "brown", "fox", "jumps", "over", "it", "."]


@pytest.mark.golden
def test_arcs(golden_picture, weights) -> None:
    A = weights(8, 8)
    fig = arcs(A, WORDS)
    ax = fig.axes[0]
    drawn = [patch for patch in ax.patches if isinstance(patch, Arc)]
    strong = np.argwhere(A >= 0.05)
    assert len(drawn) == sum(i != j for i, j in strong)
    assert len(ax.lines) == sum(i == j for i, j in strong)
    above = [patch for patch in drawn if patch.theta1 == 0]
    assert len(above) == sum(j < i for i, j in strong)  # looking back
    assert all(patch.get_center()[1] > 0 for patch in above)
    assert [text.get_text() for text in ax.texts[:8]] == WORDS
    golden_picture("arcs", fig)


def test_thicker_is_more() -> None:
    A = [[1.0, 0, 0], [0.1, 0.9, 0], [0.6, 0.4, 0]]
    drawn = arcs(A, ["a", "b", "c"]).axes[0].patches
    widths = {round(2 * patch.get_center()[0]): patch.get_linewidth() for patch in drawn}  # i + j
    assert widths[1] < widths[3] < widths[2]


@pytest.mark.parametrize("n", [1, 3, 20, 150])
def test_words_do_not_touch(weights, n: int) -> None:
    fig = arcs(weights(n, n, causal=True), [f"word{i}" for i in range(n)])
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in fig.axes[0].texts]
    assert len(boxes) > min(n, 20)  # the words and the note
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert len(fig.axes[0].patches) <= MOST_ARCS


def test_mistakes(refused) -> None:
    refused(ShapeError, "weights of shape (2, 2) for 1 tokens", lambda: arcs(np.eye(2), ["a"]))
    refused(InputError, "least must be above 0", lambda: arcs(np.eye(1), ["a"], least=0))
