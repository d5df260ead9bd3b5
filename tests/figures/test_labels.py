from __future__ import annotations

import pytest

from glassformer.errors import ShapeError
from glassformer.figures.labels import clip, label_axis
from glassformer.figures.style import figure


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
    assert clip(text) == shown


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
    refused(ShapeError, "2 labels for 3 columns: give one for each", lambda: label_axis(ax, "x", ["a", "b"], 3))
