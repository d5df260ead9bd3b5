from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.figures import head_table, patching_sweep


@pytest.mark.golden
def test_head_table(golden_picture, labels_of) -> None:
    scores = np.array([[0.9, 0.1, 0.5], [0.0, 0.7, np.nan]])
    labels = [["previous", "", "offset (+0, -1)"], ["", "convolution 3×3", ""]]
    fig = head_table(scores, labels, measure="excess", title="what heads do")
    ax = fig.axes[0]
    assert [t.get_text() for t in ax.texts] == ["previous", "", "offset\n(+0,-1)", "", "convolution\n3×3"]
    assert np.ma.getmaskarray(ax.images[0].get_array()).sum() == 1
    assert (ax.get_xlabel(), ax.get_ylabel(), fig.axes[1].get_ylabel()) == ("head", "layer", "excess")
    assert labels_of(ax, "x") == ["0", "1", "2"]
    golden_picture("head_table", fig)


def test_words_stay_in_their_cells() -> None:
    fig = head_table(np.ones((12, 12)), [["convolution 3×3"] * 12] * 12)
    fig.draw_without_rendering()
    ax, renderer = fig.axes[0], fig.canvas.get_renderer()
    cell = ax.get_window_extent().width / 12
    assert all(text.get_window_extent(renderer).width < cell for text in ax.texts)


def test_numbers_where_there_are_no_labels(labels_of) -> None:
    fig = head_table([[0.5, 1.5]], layers=["decoder.0.attention"])
    assert [text.get_text() for text in fig.axes[0].texts] == [".50", "1.5"]
    assert labels_of(fig.axes[0], "y") == ["decoder.0.attention"]


@pytest.mark.golden
def test_patching_sweep(golden_picture, labels_of) -> None:
    recovered = np.array([[0.02, 0.9, -0.3], [0.4, np.nan, 0.0]])
    fig = patching_sweep(recovered, ["decoder.0.attention", "decoder.1.attention"], ["head 0", "head 1", "head 2"])
    ax = fig.axes[0]
    norm = ax.images[0].norm
    assert (norm.vmin, norm.vmax) == (-0.9, 0.9)  # 0 is the middle of the colours
    assert [text.get_text() for text in ax.texts] == [".02", ".90", "−.30", ".40", ".00"]
    assert labels_of(ax, "x") == ["head 0", "head 1", "head 2"]
    golden_picture("patching_sweep", fig)


def test_many_positions(labels_of) -> None:
    layers, places = [f"decoder.{i}" for i in range(12)], [f"position {i}" for i in range(300)]
    fig = patching_sweep(np.zeros((12, 300)), layers, places)
    assert len(labels_of(fig.axes[0], "x")) < 300
    assert not fig.axes[0].texts


def test_signs_survive_grey_print() -> None:
    numbers = np.zeros((2, 40))
    numbers[0, :4] = [1, -1, -0.3, -0.1]
    ax = patching_sweep(numbers).axes[0]
    marked = {(int(y), int(x)) for line in ax.lines for x, y in line.get_xydata()}
    assert marked == {(0, 1), (0, 2)}
    assert "– below 0" in ax.get_title()


def test_mistakes(refused) -> None:
    refused(ShapeError, "labels of [1] heads for scores of (1, 2)", lambda: head_table([[1, 2]], [["a"]]))
    refused(ShapeError, "1 labels for 2 rows", lambda: patching_sweep(np.eye(2), ["a"]))
