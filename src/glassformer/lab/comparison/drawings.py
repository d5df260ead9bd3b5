"""The figures of a comparison, made from its file of results alone; bars are 95 % intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glassformer.figures.style import DASHES, LINES, MARKERS
from glassformer.lab.comparison import published, summary
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.results import Estimate, Results, estimate
from glassformer.lab.comparison.streaming import WINDOWED
from glassformer.lab.pictures import figure, plain

Lines = Mapping[str, Sequence[Estimate]]


class Drawing(NamedTuple):
    name: str
    says: str
    figure: Figure


def drawings(results: Results) -> list[Drawing]:
    made: dict[str, list[Callable[[Results], Drawing]]] = {
        "cost": [cost, crossing],
        "reach": [reach],
        "data": [data],
        "streaming": [streaming],
        "bias": [longer],
    }
    return [draw(results) for task, each in made.items() if results.has(task) for draw in each]


def _lines(ax: Axes, x: Sequence[float], lines: Lines, *, least: float = 0.0) -> None:
    for k, (name, values) in enumerate(lines.items()):
        y = [max(each.mean, least) for each in values]
        error = [each.half or 0.0 for each in values]
        below = [min(half, value - least) if least else half for half, value in zip(error, y, strict=True)]
        style = _style(name, k)
        ax.errorbar(x, y, yerr=[below, error], ms=4, lw=1.3, capsize=2, elinewidth=0.8, label=name, **style)


def _style(name: str, k: int) -> dict[str, Any]:
    """An architecture looks the same in every figure, its variants have its colour; others are counted."""
    kind, _, variant = {"ViT": "Transformer"}.get(name, name).partition(", ")
    place = ARCHITECTURES.index(kind) if kind in ARCHITECTURES else k
    other = len(ARCHITECTURES) if variant in ("rotary", "window") else place
    return {"ls": DASHES[other % len(DASHES) + (other != place)], "marker": MARKERS[other], "color": LINES[place]}


def _finish(
    ax: Axes, across: str, up: str, title: str, *, log: str = "", legend: bool = True, at: Sequence[int] = ()
) -> None:
    """`at`: where the horizontal axis has its numbers."""
    if "x" in log:
        ax.set_xscale("log")
    if at:
        ax.set_xticks(list(at), [f"{value:,}" for value in at])
        ax.minorticks_off()
    if "y" in log:
        ax.set_yscale("log")
        plain(ax.yaxis)
    ax.set(xlabel=across, ylabel=up)
    ax.set_title(title, fontsize=10)
    ax.tick_params(labelsize=8, which="both")
    ax.spines[["right", "top"]].set_visible(False)
    if legend:
        ax.legend(fontsize=7, edgecolor="none", framealpha=0.9)


def cost(results: Results) -> Drawing:
    """Time over n at the smallest and the largest width, time over d, memory over n."""
    plan = results.plan.cost
    fig = figure(10.0, 6.4)
    axes = fig.subplots(2, 2).ravel()
    over = lambda name, n, d: results.over("cost", "layer", lambda unit: 1e3 * unit["both"][name], n=n, d=d)
    for ax, d in zip(axes, (plan.widths[0], plan.widths[-1]), strict=False):
        _lines(
            ax,
            plan.lengths,
            {name: [over(name, n, d) for n in plan.lengths] for name in results.architectures},
            least=1e-3,
        )
        ax.axvline(2 * d, color="black", lw=1, ls=":")
        _finish(ax, "n (dotted: 2d)", "time in ms, forward and back", f"a layer, d = {d}", log="xy", at=plan.lengths)
    n = plan.lengths[len(plan.lengths) // 2]
    _lines(
        axes[2],
        plan.widths,
        {name: [over(name, n, d) for d in plan.widths] for name in results.architectures},
        least=1e-3,
    )
    _finish(axes[2], "d", "time in ms, forward and back", f"a layer, n = {n}", log="xy", legend=False, at=plan.widths)
    some = plan.lengths[::2]
    held = lambda name, n: Estimate(
        results.select("cost", "memory", n=n, d=plan.widths[0])[0]["peak"][name] / 1e6, None, 1
    )
    _lines(axes[3], some, {name: [held(name, n) for n in some] for name in results.architectures})
    _finish(axes[3], "n", "MB at most", f"memory, d = {plan.widths[0]}", log="xy", legend=False, at=some)
    return Drawing("cost", "Time and memory of one layer of each architecture over n and d", fig)


def crossing(results: Results) -> Drawing:
    """The share of attention's n² part, over n/d: all widths fall on one curve that passes one half at n ≈ 2d."""
    plan = results.plan.cost
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    for k, d in enumerate(plan.widths):
        ratios = [
            results.over("cost", "layer", lambda unit: unit["halves"][SQUARE] / unit["halves"][LINEAR], n=n, d=d)
            for n in plan.lengths
        ]
        ax.plot(
            [n / d for n in plan.lengths],
            [each.mean for each in ratios],
            marker=MARKERS[k % len(MARKERS)],
            ms=4,
            lw=1.3,
            color=LINES[k % len(LINES)],
            label=f"d = {d}",
        )
    places = [plan.lengths[0] / plan.widths[-1], plan.lengths[-1] / plan.widths[0]]
    ax.plot(places, [x / 2 for x in places], color="#888888", lw=1, ls="--", label="counted: n / 2d")
    ax.axhline(1, color="black", lw=0.8, ls=":")
    _finish(ax, "n / d", "time of n² part / of projections", "where n² overtakes d²", log="xy")
    return Drawing("crossing", "Attention's n² part against its projections over n/d", fig)


def reach(results: Results) -> Drawing:
    plan = results.plan.reach
    fig = figure(10.0, 3.8)
    left, right = fig.subplots(1, 2)
    least = 1e-30
    _lines(
        left,
        plan.gradients,
        {
            name: [Estimate(summary.gradient(results, name, n).mean, None, 1) for n in plan.gradients]
            for name in results.architectures
        },
        least=least,
    )
    _finish(
        left,
        "distance",
        "‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖",
        f"gradient, untrained (at {least:g}: that or less)",
        log="xy",
        at=plan.gradients,
    )
    _lines(
        right,
        plan.distances,
        {name: [summary.recalled(results, name, n) for n in plan.distances] for name in results.architectures},
    )
    right.axhline(1 / 8, color="#888888", lw=0.8, ls="--")
    right.set_ylim(0, 1.05)
    _finish(
        right,
        "distance",
        "recalled",
        "the first token, trained (dashed: chance)",
        log="x",
        legend=False,
        at=plan.distances,
    )
    return Drawing("reach", "Gradient and recall over distance", fig)


def data(results: Results) -> Drawing:
    """Ours where it was measured, the published gap where that was: one axis of images for both."""
    plan = results.plan.data
    fig = figure(10.0, 3.8)
    left, right = fig.subplots(1, 2, width_ratios=(1, 1.4))
    lines = {
        {"Transformer": "ViT"}.get(name, name): [summary.learned(results, name, size) for size in plan.sizes]
        for name in ("Transformer", "CNN")
    }
    _lines(left, plan.sizes, lines)
    _finish(left, "training images", "test accuracy", f"{plan.source}, from scratch", log="x", at=plan.sizes)
    gaps = [summary.gap(results, size) for size in plan.sizes]
    percent = [Estimate(100 * gap.mean, None if gap.half is None else 100 * gap.half, gap.seeds) for gap in gaps]
    _lines(right, plan.sizes, {f"measured here: {plan.source}, CNN − ViT": percent})
    theirs = "published: ImageNet after pre-training, BiT − best ViT"
    x, y = [each.images for each in published.FIGURE_3], [each.gap for each in published.FIGURE_3]
    right.plot(x, y, color=LINES[2], marker=MARKERS[2], ms=4, lw=1.3, ls=DASHES[2], label=theirs)
    for each in published.FIGURE_3:
        at = {"xy": (each.images, each.gap), "xytext": (0, 6), "textcoords": "offset points"}
        right.annotate(f"{each.gap:+.1f}".replace("-", "−"), **at, ha="center", fontsize=7)
    crossing = "published: in between ViT overtakes (Figure 4)"
    right.axvspan(*published.FIGURE_4, color=LINES[3], alpha=0.2, lw=0, label=crossing)
    right.axhline(0, color="black", lw=0.8, ls=":")
    right.margins(y=0.25)
    _finish(right, "training images", "points", "how much better the convolutional net is", log="x")
    return Drawing("data", "Accuracy of ViT and CNN as the training set grows; the gap, beside the published one", fig)


def streaming(results: Results) -> Drawing:
    after = results.plan.streaming.after
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    names = [*results.architectures, *([WINDOWED] if "Transformer" in results.architectures else [])]
    scaled = lambda each: estimate([1e3 * each.mean])
    _lines(ax, after, {name: [scaled(summary.frame(results, name, n)) for n in after] for name in names})
    ax.set_xlim(after[0] / 1.5, 20 * after[-1])  # room for the legend
    _finish(ax, "tokens before", "time in ms", "one more token", log="xy", at=after)
    return Drawing("streaming", "Time of one more token after so many", fig)


def longer(results: Results) -> Drawing:
    bias = results.plan.bias
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    names = dict.fromkeys(unit["settings"]["architecture"] for unit in results.units if unit["part"] == "longer")
    over = lambda name, n: results.over("bias", "longer", lambda unit: unit["accuracy"][str(n)], architecture=name)
    _lines(ax, bias.longer, {name: [over(name, n) for n in bias.longer] for name in names})
    ax.axvline(bias.length, color="black", lw=1, ls=":")
    ax.axhline(1 / 8, color="#888888", lw=0.8, ls="--")
    ax.set_ylim(0, 1.05)
    _finish(ax, "length (dotted: trained)", "accuracy", "longer than trained (dashed: chance)", log="x", at=bias.longer)
    return Drawing("longer", "Accuracy on sequences longer than trained", fig)
