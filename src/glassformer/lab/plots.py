"""Plots of the lab: curves, bars, points and heat maps, in the style of `figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from glassformer.figures.style import DASHES, LINES, MARKERS, figure

Numbers = Sequence[float]
FLOOR = 1e-17  # drawn instead of 0 on a logarithmic axis


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis 0.2, 0.5, 1 instead of 2 × 10⁻¹ …; between powers of ten only if there are few."""
    low, high = axis.get_view_interval()
    few = high / low < 100
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda x, _: f"{x:g}" if few and f"{x:e}"[0] in "25" else ""))


def curves(
    x: Numbers,
    lines: Mapping[str, Numbers],
    *,
    across: str,
    up: str,
    title: str,
    log: str = "",
    marks: Mapping[str, float] | None = None,
    levels: Mapping[str, float] | None = None,
    floor: float = FLOOR,
) -> Figure:
    """Plot one line per name over x. `log` names the logarithmic axes; `marks` are positions in x, `levels` in y.

    On a logarithmic axis smaller values of y are drawn at `floor`.
    """
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    for k, (name, y) in enumerate(lines.items()):
        style = {"ls": DASHES[k % len(DASHES)], "marker": MARKERS[k % len(MARKERS)], "color": LINES[k % len(LINES)]}
        ax.plot(x, [max(value, floor) for value in y] if "y" in log else y, ms=4, lw=1.4, label=name, **style)
    for name, place in (marks or {}).items():
        ax.axvline(place, color="black", lw=1, ls=":", label=name)
    for name, height in (levels or {}).items():
        ax.axhline(height, color="#888888", lw=0.8, ls="--", label=name)
    if "x" in log:
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
    if "y" in log:
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    _finish(ax, across, up, title)
    return fig


def bars(values: Mapping[str, float], *, up: str, title: str, log: bool = False, level: float | None = None) -> Figure:
    """Plot one bar per name, labelled with its value; `level` is a reference line."""
    fig = figure(6.4, 3.6)
    ax = fig.subplots()
    heights = [max(value, FLOOR) if log else value for value in values.values()]
    drawn = ax.bar(list(values), heights, color=LINES[0], width=0.6)
    ax.bar_label(drawn, ["≈ 0" if 0 < x < 1e-15 else f"{x:.3g}" for x in heights], fontsize=8)
    if level is not None:
        ax.axhline(level, color="black", lw=1, ls=":")
    if log:
        ax.set_yscale("log")
    _finish(ax, "", up, title)
    for label in ax.get_xticklabels():
        label.set(rotation=25, ha="right")
    return fig


def points(
    groups: Mapping[str, tuple[Numbers, Numbers]], *, across: str, up: str, title: str, marks: Mapping[str, float]
) -> Figure:
    """Plot a scatter of points (x, y) per name; `marks` are x positions."""
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    for k, (name, (x, y)) in enumerate(groups.items()):
        ax.scatter(x, y, s=14, marker=MARKERS[k % len(MARKERS)], color=LINES[k % len(LINES)], label=name)
    for name, place in marks.items():
        ax.axvline(place, color="black", lw=1, ls=":", label=name)
    ax.axhline(0, color="#888888", lw=0.6, zorder=0)
    _finish(ax, across, up, title)
    return fig


def maps(matrices: Mapping[str, Sequence[Numbers]], *, title: str) -> Figure:
    """Plot matrices side by side on one colour scale, with numbers in the cells if there are few."""
    fig = figure(2.6 * len(matrices) + 0.8, 3.2)
    fig.suptitle(title, fontsize=10)
    axes = fig.subplots(1, len(matrices), squeeze=False)[0]
    flat = [abs(x) for rows in matrices.values() for row in rows for x in row]
    top = max(flat) or 1.0
    for ax, (name, rows) in zip(axes, matrices.items(), strict=True):
        image = ax.imshow([list(row) for row in rows], cmap="PuOr_r", vmin=-top, vmax=top)
        ax.set_title(name, fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
        if len(rows) <= 8 and len(rows[0]) <= 8:
            for i, row in enumerate(rows):
                for j, x in enumerate(row):
                    shade = "white" if abs(x) > 0.7 * top else "black"
                    ax.text(j, i, _short(x), ha="center", va="center", fontsize=7, color=shade)
    fig.colorbar(image, ax=list(axes), shrink=0.8)
    return fig


def _short(x: float) -> str:
    """Format with two digits, or with one digit and an exponent if two digits would not fit into a cell."""
    return f"{x:.2g}" if x == 0 or abs(x) >= 0.01 else f"{x:.0e}".replace("e-0", "e-")


def _finish(ax: Axes, across: str, up: str, title: str) -> None:
    ax.set(xlabel=across, ylabel=up)
    ax.set_title(title, fontsize=10)
    ax.tick_params(labelsize=8, which="both")
    ax.spines[["right", "top"]].set_visible(False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
