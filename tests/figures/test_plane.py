from __future__ import annotations

import itertools

import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.figures import head_map


@pytest.mark.golden
def test_map_of_heads(golden_picture) -> None:
    xy = np.random.default_rng(1).normal(size=(24, 2))
    names = [f"{i // 6}.{i % 6}" for i in range(24)]
    fig = head_map(xy, names, [i % 3 for i in range(24)])
    ax = fig.axes[0]
    assert [len(line.get_xdata()) for line in ax.lines] == [8, 8, 8]
    assert len({line.get_marker() for line in ax.lines}) == 3
    assert ax.lines[0].get_xdata().tolist() == xy[::3, 0].tolist()
    assert {text.get_text() for text in ax.texts} <= set(names)
    assert len(ax.texts) >= 20
    golden_picture("head_map", fig)


@pytest.mark.parametrize("n", [1, 12, 144])
def test_names_do_not_touch(n: int) -> None:
    fig = head_map(np.random.default_rng(2).normal(size=(n, 2)), [f"{i // 12}.{i % 12}" for i in range(n)])
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in fig.axes[0].texts]
    assert len(boxes) >= min(n, 12) // 2 or n == 1
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_distances_are_drawn_as_they_are() -> None:
    ax = head_map([[0, 0], [1, 0], [0, 2]], ["a", "b", "c"]).axes[0]
    a, b, c = ax.transData.transform([[0, 0], [1, 0], [0, 2]])
    assert np.hypot(*(c - a)) == pytest.approx(2 * np.hypot(*(b - a)))


def test_mistakes(refused) -> None:
    refused(ShapeError, "places of shape (2, 2), 1 names and 2 groups", lambda: head_map(np.eye(2), ["a"]))
    refused(ShapeError, "places of shape (2, 3)", lambda: head_map(np.ones((2, 3)), ["a", "b"]))
