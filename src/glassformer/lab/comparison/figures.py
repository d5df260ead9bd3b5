"""The figures of a comparison, drawn from its results alone; error bars are 95 % intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glassformer.figures.style import DASHES, LINES, MARKERS, figure
from glassformer.lab.comparison import published
from glassformer.lab.comparison import results as r
from glassformer.lab.comparison.bias import NETWORKS, TRAINED
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.networks import ARCHITECTURES
from glassformer.lab.comparison.reach import longer_names
from glassformer.lab.comparison.results import Estimate, Results, estimate
from glassformer.lab.comparison.streaming import streaming_architectures as streaming_names
from glassformer.lab.plots import plain_ticks

Lines = Mapping[str, Sequence[Estimate]]


class ComparisonFigure(NamedTuple):
    name: str
    caption: str
    figure: Figure


def figures(results: Results) -> list[ComparisonFigure]:
    made: dict[str, list[Callable[[Results], ComparisonFigure]]] = {
        "reach": [reach, longer],
        "bias": [shifts],
        "streaming": [streaming],
        "cost": [cost, crossing],
        "data": [data],
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
    """Return the line style: an architecture has the same style in every figure, and its variants share its colour."""
    kind, _, variant = {"ViT": "Transformer"}.get(name, name).partition(", ")
    place = ARCHITECTURES.index(kind) if kind in ARCHITECTURES else k
    other = len(ARCHITECTURES) if variant in ("rotary", "window") else place
    return {"ls": DASHES[other % len(DASHES) + (other != place)], "marker": MARKERS[other], "color": LINES[place]}


def _finish(
    ax: Axes, across: str, up: str, title: str, *, log: str = "", legend: bool = True, at: Sequence[int] = ()
) -> None:
    """Finish the axes; `at` holds the ticks of the horizontal axis."""
    if "x" in log:
        ax.set_xscale("log")
    if at:
        ax.set_xticks(list(at), [f"{value:,}" for value in at])
        ax.minorticks_off()
    if "y" in log:
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    ax.set(xlabel=across, ylabel=up)
    ax.set_title(title, fontsize=10)
    ax.tick_params(labelsize=8, which="both")
    ax.spines[["right", "top"]].set_visible(False)
    if legend:
        ax.legend(fontsize=7, edgecolor="none", framealpha=0.9)


def cost(results: Results) -> ComparisonFigure:
    """Plot time over n at the smallest and the largest width, time over d, and memory over n."""
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
        _finish(
            ax, "n (dotted: 2d)", "time in ms, forward and backward", f"a layer, d = {d}", log="xy", at=plan.lengths
        )
    n = plan.lengths[len(plan.lengths) // 2]
    _lines(
        axes[2],
        plan.widths,
        {name: [over(name, n, d) for d in plan.widths] for name in results.architectures},
        least=1e-3,
    )
    _finish(
        axes[2], "d", "time in ms, forward and backward", f"a layer, n = {n}", log="xy", legend=False, at=plan.widths
    )
    some = plan.lengths[::2]
    held = lambda name, n: Estimate(
        results.select("cost", "memory", n=n, d=plan.widths[0])[0]["peak"][name] / 1e6, None, 1
    )
    _lines(axes[3], some, {name: [held(name, n) for n in some] for name in results.architectures})
    _finish(axes[3], "n", "peak MB", f"memory, d = {plan.widths[0]}", log="xy", legend=False, at=some)
    return ComparisonFigure("cost", "Time and memory of one layer of each architecture over n and d", fig)


def crossing(results: Results) -> ComparisonFigure:
    """Plot the share of attention's n² part over n/d: all widths fall on one curve that passes one half at n ≈ 2d."""
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
    _finish(ax, "n / d", "time of n² part / of projections", "where the n² part overtakes the projections", log="xy")
    return ComparisonFigure("crossing", "Attention's n² part against its projections over n/d", fig)


def reach(results: Results) -> ComparisonFigure:
    """Plot the gradient before training, and the accuracy of every seed after training."""
    plan = results.plan.reach
    fig = figure(10.0, 3.8)
    left, right = fig.subplots(1, 2)
    least = 1e-30
    mean = lambda name, n: Estimate(r.gradient(results, name, n).mean, None, 1)
    _lines(left, plan.gradients, {a: [mean(a, n) for n in plan.gradients] for a in results.architectures}, least=least)
    title = f"gradient before training (values below {least:g} are drawn at {least:g})"
    _finish(left, "distance", "‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖", title, log="xy", at=plan.gradients)
    count = len(results.architectures)
    for k, name in enumerate(results.architectures):
        style = _style(name, k)
        for place, n in enumerate(plan.distances):
            seeds = r.recalled(results, name, n)
            x = [place + (k - (count - 1) / 2) * 0.12] * len(seeds)
            right.plot(x, seeds, ls="", ms=4, alpha=0.7, marker=style["marker"], color=style["color"])
    right.axhline(1 / 8, color="#888888", lw=0.8, ls="--")
    right.set_ylim(0, 1.05)
    right.set_xticks(range(len(plan.distances)), [str(n) for n in plan.distances])
    title = "recall after training, one mark per seed (dashed: chance)"
    _finish(right, "distance", "test accuracy", title, legend=False)
    return ComparisonFigure("reach", "Gradient before training and recall after training over distance", fig)


def data(results: Results) -> ComparisonFigure:
    """Plot the measured accuracy and gap beside the published gap, on the same axis of images."""
    plan = results.plan.data
    fig = figure(10.0, 3.8)
    left, right = fig.subplots(1, 2, width_ratios=(1, 1.4))
    measured: dict[str, list[Estimate]] = {}
    for k, dataset in enumerate(plan.datasets):
        for name, label in (("Transformer", "ViT"), ("CNN", "CNN")):
            found = [r.accuracy(results, dataset, name, size) for size in plan.sizes]
            style = {**_style(name, 0), "ls": DASHES[k % len(DASHES)]}
            half = [each.half or 0.0 for each in found]
            y = [each.mean for each in found]
            left.errorbar(plan.sizes, y, yerr=half, ms=4, lw=1.3, capsize=2, label=f"{label}, {dataset}", **style)
        measured[f"measured: {dataset}, CNN − ViT"] = [r.gap(results, dataset, size).times(100) for size in plan.sizes]
    _lines(right, plan.sizes, measured)
    _finish(left, "training images", "test accuracy", "trained from scratch", log="x", at=plan.sizes)
    label = "published: ImageNet after pre-training, BiT − best ViT"
    x, y = [each.images for each in published.FIGURE_3], [each.gap for each in published.FIGURE_3]
    right.plot(x, y, color=LINES[2], marker=MARKERS[2], ms=4, lw=1.3, ls=DASHES[2], label=label)
    for each in published.FIGURE_3:
        at = {"xy": (each.images, each.gap), "xytext": (0, 6), "textcoords": "offset points"}
        right.annotate(f"{each.gap:+.1f}".replace("-", "−"), **at, ha="center", fontsize=7)
    overtakes = "published: range in which ViT overtakes (Figure 4)"
    right.axvspan(*published.FIGURE_4, color=LINES[3], alpha=0.2, lw=0, label=overtakes)
    right.axhline(0, color="black", lw=0.8, ls=":")
    right.margins(y=0.25)
    _finish(right, "training images", "points", "accuracy of the CNN minus that of the ViT", log="x")
    return ComparisonFigure("data", "Accuracy of ViT and CNN as the training set grows, and the published gap", fig)


def streaming(results: Results) -> ComparisonFigure:
    after = results.plan.streaming.after
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    names = streaming_names(results.architectures)
    scaled = lambda each: estimate([1e3 * each.mean])
    _lines(ax, after, {name: [scaled(r.token_time(results, name, n)) for n in after] for name in names})
    ax.set_xlim(after[0] / 1.5, 20 * after[-1])  # space for the legend
    _finish(ax, "tokens so far", "time in ms", "one more token", log="xy", at=after)
    return ComparisonFigure("streaming", "Time of one more token", fig)


def longer(results: Results) -> ComparisonFigure:
    plan = results.plan.reach
    fig = figure(6.4, 4.0)
    ax = fig.subplots()
    names = longer_names(results.architectures)
    _lines(ax, plan.longer, {name: [r.longer(results, name, n) for n in plan.longer] for name in names})
    ax.axvline(plan.length, color="black", lw=1, ls=":")
    ax.axhline(1 / 8, color="#888888", lw=0.8, ls="--")
    ax.set_ylim(0, 1.05)
    title = "sequences longer than in training (dashed: chance)"
    _finish(ax, "length (dotted: training length)", "accuracy", title, log="x", at=plan.longer)
    return ComparisonFigure("longer", "Accuracy on sequences longer than in training", fig)


def shifts(results: Results) -> ComparisonFigure:
    """Plot accuracy over the shift, after training on centred images and with random shifts."""
    x = (0, *results.plan.bias.shifts)
    fig = figure(10.0, 3.6)
    names = [name for name in results.architectures if name in NETWORKS]
    for k, (ax, way) in enumerate(zip(fig.subplots(1, 2, sharey=True), TRAINED, strict=True)):
        _lines(ax, x, {name: [r.on_shifted(results, name, way, by) for by in x] for name in names})
        _finish(ax, "shift in pixels", "test accuracy", f"trained on {way} images", legend=not k, at=x)
    return ComparisonFigure("shifts", "Accuracy on shifted images", fig)
