"""Heads as points in the plane: heads with similar attention lie close together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.labels import LETTER, LINE, shorten_label
from glassformer.figures.style import LINES, MARKERS, array, figure

SIZE = 7.0  # font size of labels, in points
Box = tuple[float, float, float, float]


def head_map(
    xy: ArrayLike, names: Sequence[str], group: Sequence[int] | None = None, *, title: str = "map of heads"
) -> Figure:
    """Draw a marker at each head's position (n, 2), with shape and colour by group, and its name where it fits."""
    places = array(xy, "xy", 2)
    n = len(places)
    groups = [0] * n if group is None else list(group)
    if places.shape != (n, 2) or len(names) != n or len(groups) != n:
        fact = f"places have shape {places.shape}, {len(names)} names and {len(groups)} groups"
        raise ShapeError(fact, "give two numbers, a name and a group for each head")
    fig = figure(7.0, 5.6)
    fig.set_layout_engine("none")  # label positions are computed in points, on fixed axes
    ax = fig.add_axes((0.03, 0.03, 0.94, 0.85))
    centre = (places.max(0) + places.min(0)) / 2
    half = max(1e-9, float((places.max(0) - places.min(0)).max()) / 2) * 1.12
    inches = np.array([7.0 * 0.94, 5.6 * 0.85])
    reach = half * inches / inches.min()  # equal scale on both axes, since the map shows distances
    ax.set_xlim(centre[0] - reach[0], centre[0] + reach[0])
    ax.set_ylim(centre[1] - reach[1], centre[1] + reach[1])
    ax.set(xticks=[], yticks=[])
    fig.suptitle(shorten_label(title, 80), fontsize=10)
    for k in sorted(set(groups)):
        chosen = places[[g == k for g in groups]]
        marks = ax.plot(*chosen.T, MARKERS[k % len(MARKERS)], ms=6, mec="white", mew=0.6, label=f"group {k}")
        marks[0].set_color(LINES[k % len(LINES)])
    if group is not None:
        ax.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=8, frameon=False)
    points = (places - centre + reach) / (2 * reach) * inches * 72
    for i, (x, y), side in fitting(points, [shorten_label(name) for name in names], inches * 72):
        ax.annotate(
            shorten_label(names[i]), places[i], (x, y), textcoords="offset points", fontsize=SIZE, ha=side, va="center"
        )
    return fig


def fitting(
    points: np.ndarray[tuple[int, ...], np.dtype[np.floating]], names: Sequence[str], page: ArrayLike
) -> Iterator[tuple[int, tuple[float, float], str]]:
    """Yield names that fit right, left, above or below their marker without overlapping markers or each other."""
    taken: list[Box] = [(x - 3.5, y - 3.5, x + 3.5, y + 3.5) for x, y in points.tolist()]
    wide, high = np.asarray(page).tolist()
    for i, (x, y) in enumerate(points.tolist()):
        w, h = len(names[i]) * SIZE * LETTER, SIZE * LINE
        middle = -w / 2
        sides = ((5, 0, "left", 5), (-5, 0, "right", -5 - w), (0, 9, "center", middle), (0, -9, "center", middle))
        for dx, dy, side, left in sides:
            box = (x + left, y + dy - h / 2, x + left + w, y + dy + h / 2)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= wide and box[3] <= high
            if inside and not any(_overlap(box, other) for k, other in enumerate(taken) if k != i):
                taken.append(box)
                yield i, (dx, dy), side
                break


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
