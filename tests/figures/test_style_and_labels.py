"""Colours, labels, input checks and saving, which all figures share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer import figures
from glassformer.errors import InputError, ShapeError
from glassformer.figures import style
from glassformer.figures.labels import label_axis, shorten_label
from glassformer.figures.narrow import WIDTH, narrow
from glassformer.figures.style import figure


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
def test_shrink_is_the_mean_of_each_block(t: int, s: int, most: int, masked: int) -> None:
    A = np.random.default_rng(t * 41 + s).normal(size=(t, s))
    if masked:
        A[np.random.default_rng(masked).random((t, s)) < masked / 3] = -np.inf
    old, style.MOST_CELLS = style.MOST_CELLS, most
    try:
        small, down, across = style.shrink(A)
    finally:
        style.MOST_CELLS = old
    assert max(small.shape) <= most
    assert small.shape == (math.ceil(t / down), math.ceil(s / across))
    for i, j in np.ndindex(small.shape):
        block = A[i * down : (i + 1) * down, j * across : (j + 1) * across]
        real = block[np.isfinite(block)]
        assert small[i, j] == (pytest.approx(real.mean()) if real.size else -np.inf)


@pytest.mark.timeout(60)
def test_a_map_of_4096_tokens_is_shrunk() -> None:
    A = np.random.default_rng(0).random((4096, 4096), dtype=np.float32)
    small, down, across = style.shrink(style.array(A, "A", 2))
    assert (small.shape, down, across) == ((1024, 1024), 4, 4)
    assert small.mean() == pytest.approx(A.mean(dtype=np.float64), abs=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.float64])
def test_tensors_are_arrays_too(kind: torch.dtype) -> None:
    made = style.array(torch.ones(2, 3).to(kind), "A", 2)
    assert made.shape == (2, 3)
    assert np.issubdtype(made.dtype, np.floating)
    style.array(torch.ones(2, 3, requires_grad=True), "A", 2)


@pytest.mark.parametrize(
    ("values", "kind", "says"),
    [
        ([1.0], ShapeError, "A has 1 axes, (1,): give 2"),
        (np.zeros((0, 3)), ShapeError, "A is empty, (0, 3): give at least one number"),
        ([[math.nan]], InputError, "A contains nan: give finite numbers"),
        ([[-math.inf, 1]], InputError, "A contains -inf: give finite numbers"),
        ([[1], [2, 3]], InputError, "A is not an array of numbers: give rows of equal length"),
        ([["a"]], InputError, "A is not an array of numbers"),
    ],
)
def test_what_cannot_be_drawn(refused, values, kind, says) -> None:
    refused(kind, says, lambda: style.array(values, "A", 2))


def test_masked_and_missing_are_allowed_where_they_mean_something(refused) -> None:
    style.array([[-math.inf, 1]], "S", 2, masked=True)
    style.array([[math.nan, 1]], "x", 2, missing=True)
    refused(InputError, "S contains inf", lambda: style.array([[math.inf, 1]], "S", 2, masked=True))
    refused(InputError, "S contains only -inf", lambda: style.array([[-math.inf]], "S", 2, masked=True))


def test_scale() -> None:
    assert style.scale_of(np.array([[0.25, 0.5]])) == (0, 0.5)
    assert style.scale_of(np.array([[-2.0, -np.inf, 3.0]])) == (-2, 3)
    assert style.scale_of(np.zeros((2, 2)))[1] > 0
    many = np.full((100, 100), 0.01)
    many[0, 0] = 1.0  # one sink does not darken all others
    assert style.scale_of(many) == (0, 0.05)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, ".25"), (-0.5, "−.50"), (1, "1.0"), (0.999, "1.0"), (12.3, "12"), (-0.001, ".00"), (-3.14159, "−3.1")],
)
def test_short_numbers(value: float, text: str) -> None:
    assert style.short_number(value) == text


def test_the_same_picture_is_the_same_file() -> None:
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        one, other = (figures.to_bytes(figures.attention_map([[1.0, 0.0], [0.5, 0.5]]), kind) for _ in range(2))
        assert one == other
        assert one.startswith(start)


def test_few_colours_is_smaller_and_as_large_in_pixels() -> None:
    import io

    from PIL import Image

    fig = figures.attention_map(np.random.default_rng(0).random((40, 40)))
    for dpi in (50, 72, 110):
        full, few = figures.to_bytes(fig, dpi=dpi), figures.to_bytes(fig, dpi=dpi, few_colours=True)
        assert Image.open(io.BytesIO(full)).size == Image.open(io.BytesIO(few)).size
        assert len(few) < len(full)


def test_no_other_kinds(refused) -> None:
    fig = figures.attention_map([[1.0]])
    refused(InputError, "a figure cannot be saved as 'gif': choose png or svg", lambda: figures.to_bytes(fig, "gif"))


def test_drawing_leaves_pyplot_alone() -> None:
    import subprocess
    import sys

    code = (
        "import sys, glassformer.figures as f; from matplotlib import rcParams as rc;"
        "rest = [k for k in rc if k != 'backend']; old = [rc[k] for k in rest];"  # to read the backend loads pyplot
        "f.to_bytes(f.attention_map([[1.0, 0.0], [0.5, 0.5]])); f.to_bytes(f.arcs([[1.0]], ['a']), 'svg');"
        "print('matplotlib.pyplot' in sys.modules, old == [rc[k] for k in rest])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_figure_displays_itself_in_a_notebook() -> None:
    from IPython.core.formatters import DisplayFormatter

    make = lambda: figures.attention_map([[1.0, 0.0], [0.5, 0.5]])
    shown, _ = DisplayFormatter().format(make(), include=["image/png"])
    assert shown == {"image/png": figures.to_bytes(make())}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "the"),
        (" ", "␣"),
        ("a\nb", "a↵b"),
        ("\t", "⇥"),
        ("$5", r"\$5"),
        ("a-very-long-token", "a-very-long-t…"),
        ("中", "□"),  # the font has it not
        ("\x00", "□"),
        ("größe", "größe"),
    ],
)
def test_clip(text: str, shown: str) -> None:
    assert shorten_label(text) == shown


@pytest.mark.variants(10)
@pytest.mark.parametrize("n", [1, 2, 7, 20, 64, 500, 4096])
@pytest.mark.parametrize("size", [(1.5, 1.5), (3, 6), (9, 2)])
@pytest.mark.parametrize("named", [True, False])
def test_labels_never_touch(labels_of, n: int, size: tuple[float, float], named: bool) -> None:
    fig = figure(*size)
    ax = fig.subplots()
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    names = [f"token{i}" for i in range(n)] if named else None
    for axis in ("x", "y"):
        label_axis(ax, axis, names, n)
        shown = labels_of(ax, axis)
        assert 1 <= len(shown) <= n
        assert shown[0] == ("token0" if named else "0")


def test_larger_axes_have_more_labels(labels_of) -> None:
    counts = []
    for side in (2, 4, 8):
        ax = figure(side, side).subplots()
        ax.set(xlim=(-0.5, 199.5), ylim=(199.5, -0.5))
        label_axis(ax, "y", [f"t{i}" for i in range(200)], 200)
        counts.append(len(labels_of(ax, "y")))
    assert counts[0] < counts[1] < counts[2]


def test_positions_go_by_round_steps(labels_of) -> None:
    ax = figure(4, 3).subplots()
    ax.set(xlim=(-0.5, 249.5))
    label_axis(ax, "x", None, 1000, 4)  # drawn in blocks of four
    numbers = [int(text) for text in labels_of(ax, "x")]
    assert numbers[1] - numbers[0] in (100, 200, 500)
    places = ax.xaxis.get_majorticklocs()
    assert places[1] == pytest.approx((numbers[1] - 1.5) / 4)


def test_names_are_turned_only_where_they_must_be(labels_of) -> None:
    for n, turned in ((3, 0), (30, 90)):
        ax = figure(5, 3).subplots()
        ax.set(xlim=(-0.5, n - 0.5))
        label_axis(ax, "x", ["word"] * n, n)
        labels_of(ax, "x")
        assert ax.xaxis.get_ticklabels()[0].get_rotation() == turned


def test_one_label_for_each(refused) -> None:
    ax = figure(2, 2).subplots()
    refused(
        ShapeError, "there are 2 labels for 3 columns: give one for each", lambda: label_axis(ax, "x", ["a", "b"], 3)
    )


def test_a_narrow_figure_shows_everything_below_one_another() -> None:
    fig = figure(10, 4)
    left, right = fig.subplots(1, 2)
    for ax in (left, right):
        ax.plot([1, 2, 4], [1, 3, 2], label="a line with a long name beside the axes")
        ax.set_title("a title that is far too long for the width of a telephone, and has to be broken")
        ax.set_xticks([1, 2, 3, 4], ["1,000,000,000", "2,000,000,000", "3,000,000,000", "4,000,000,000"])
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    assert narrow(fig) is fig
    fig.draw_without_rendering()
    assert fig.get_figwidth() == WIDTH
    seen = fig.get_tightbbox()
    assert seen.x0 >= 0
    assert seen.x1 <= WIDTH
    assert seen.y0 >= 0
    assert seen.y1 <= fig.get_figheight()
    for ax in (left, right):
        assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0
        assert "\n" in ax.get_title()
        assert ax.get_xticklabels()[0].get_rotation() == 45
    assert left.get_legend().get_window_extent().y0 > right.get_window_extent().y1
