"""Figures of many heads or runs: tables, maps of heads, curves and learning curves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.figures import head_map, head_table, learning_curves, patching_sweep, sensitivity_curves


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
    refused(
        ShapeError, "there are labels for [1] heads, and scores of shape (1, 2)", lambda: head_table([[1, 2]], [["a"]])
    )
    refused(ShapeError, "there are 1 labels for 2 rows", lambda: patching_sweep(np.eye(2), ["a"]))


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


def test_plane_mistakes(refused) -> None:
    refused(ShapeError, "places have shape (2, 2), 1 names and 2 groups", lambda: head_map(np.eye(2), ["a"]))
    refused(ShapeError, "places have shape (2, 3)", lambda: head_map(np.ones((2, 3)), ["a", "b"]))


@pytest.mark.golden
def test_curves(golden_picture) -> None:
    x = np.linspace(0, 1, 9)
    predicted, measured = np.stack([x, -x / 2]), np.stack([np.sin(x), -x / 2 + x**2 / 9])
    fig = sensitivity_curves(x, predicted, measured, ["key 0", "key 1"], margin=0.6)
    ax = fig.axes[0]
    assert [line.get_ydata().tolist() for line in ax.lines[:4]] == [
        predicted[0].tolist(), measured[0].tolist(), predicted[1].tolist(), measured[1].tolist(),
    ]  # fmt: skip
    assert ax.lines[0].get_linestyle() != ax.lines[2].get_linestyle()  # told apart without colour
    assert ax.lines[1].get_marker() != ax.lines[3].get_marker()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "key 0: predicted", "key 0: measured", "key 1: predicted", "key 1: measured", "the largest weight moves",
    ]  # fmt: skip
    golden_picture("sensitivity_curves", fig)


def test_one_curve() -> None:
    assert len(sensitivity_curves([1, 2], [1, 2], [1, 3]).axes[0].lines) == 3  # and the line at 0


def test_curves_mistakes(refused) -> None:
    says = "predicted has shape (1, 2) and measured (1, 3) at 2 sizes"
    refused(ShapeError, says, lambda: sensitivity_curves([1, 2], [1, 2], [1, 2, 3]))
    refused(ShapeError, "2 names for 1 quantities", lambda: sensitivity_curves([1], [1], [1], ["a", "b"]))


@pytest.mark.golden
def test_learning_curves(golden_picture) -> None:
    steps = np.arange(10, 310, 10)
    loss, rate = 2.3 * np.exp(-steps / 90), 1e-3 * np.cos(np.pi * steps / 620)
    held = {"accuracy": ([100, 200, 300], [0.6, 0.8, 0.85]), "loss on held-out data": ([100, 200, 300], [1, 0.6, 0.5])}
    fig = learning_curves((steps, loss), (steps, rate), held, title="digits")
    assert fig.axes[0].lines[0].get_ydata().tolist() == loss.tolist()
    assert [ax.get_ylabel() for ax in fig.axes] == ["loss", "accuracy", "loss on held-out data", "rate (dotted)"]
    golden_picture("learning_curves", fig)


def test_nothing_held_out() -> None:
    assert len(learning_curves(([1, 2], [2, 1]), ([1, 2], [1, 1])).axes) == 2


def test_learning_mistakes(refused) -> None:
    refused(ShapeError, "loss has 1 values at 2 steps", lambda: learning_curves(([1, 2], [1]), ([1], [1])))
    refused(ShapeError, "steps of loss is empty", lambda: learning_curves(([], []), ([1], [1])))
