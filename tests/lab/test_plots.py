from __future__ import annotations

from glassformer.figures import save
from glassformer.lab import plots


def test_curves() -> None:
    fig = plots.curves(
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


def test_axes_are_in_plain_numbers() -> None:
    """4, 8, 16, 32 on a logarithmic axis: 2 × 10¹ and 3 × 10¹ would run into each other."""
    fig = plots.curves([4, 8, 16, 32], {"a": [1, 2, 3, 4]}, across="n", up="y", title="t", log="x")
    save(fig)
    shown = [label.get_text() for which in (False, True) for label in fig.axes[0].get_xticklabels(minor=which)]
    assert "10" in shown
    assert "20" in shown
    assert not any("times" in text or "30" in text for text in shown)


def test_small_numbers_fit_their_cells() -> None:
    fig = plots.maps({"a": [[-0.00088, 0.012, 0.0]]}, title="t")
    assert [text.get_text() for text in fig.axes[0].texts] == ["-9e-4", "0.012", "0"]


def test_bars() -> None:
    fig = plots.bars({"a": 1, "b": 2}, up="y", title="t", level=1.0)
    assert [patch.get_height() for patch in fig.axes[0].patches] == [1, 2]
    assert save(fig)


def test_points() -> None:
    fig = plots.points({"a": ([1, 2], [3, 4])}, across="x", up="y", title="t", marks={"0": 0.0})
    assert save(fig)


def test_maps_write_their_numbers() -> None:
    fig = plots.maps({"a": [[0.5, 0.25]], "b": [[0.0, 0.0]]}, title="t")
    assert [text.get_text() for text in fig.axes[0].texts] == ["0.5", "0.25"]
    assert save(fig)
