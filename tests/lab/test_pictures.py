from __future__ import annotations

from glassformer.figures import save
from glassformer.lab import pictures


def test_curves() -> None:
    fig = pictures.curves(
        [1, 10],
        {"a": [1, 2], "b": [3, 4]},
        across="x",
        up="y",
        title="t",
        log="xy",
        marks={"here": 2},
        levels={"at": 1},
    )
    ax = fig.axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_legend_handles_labels()[1] == ["a", "b", "here", "at"]
    assert save(fig)


def test_bars() -> None:
    fig = pictures.bars({"a": 1, "b": 2}, up="y", title="t", level=1.0)
    assert [patch.get_height() for patch in fig.axes[0].patches] == [1, 2]
    assert save(fig)


def test_points() -> None:
    fig = pictures.points({"a": ([1, 2], [3, 4])}, across="x", up="y", title="t", marks={"0": 0.0})
    assert save(fig)


def test_maps_write_their_numbers() -> None:
    fig = pictures.maps({"a": [[0.5, 0.25]], "b": [[0.0, 0.0]]}, title="t")
    assert [text.get_text() for text in fig.axes[0].texts] == ["0.5", "0.25"]
    assert save(fig)
