"""What a comparison found, in sentences whose every number comes from its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glassformer.lab.comparison import published, summary
from glassformer.lab.comparison.bias import SEEING, VARIANTS
from glassformer.lab.comparison.results import Estimate, Results


def findings(results: Results) -> str:
    """A list in Markdown, and how it was made."""
    tell = (_made, _halves, _overtaken, _threads, _gradient, _recall, _data, _published, _streaming, _images, _longer)
    first, *rest = [sentence for each in tell for sentence in each(results)]
    return "\n".join([first, "", *(f"- {sentence}" for sentence in rest)])


def _each(results: Results, told: Callable[[str], str]) -> str:
    return ", ".join(f"{name} {told(name)}" for name in results.architectures)


def _made(results: Results) -> Iterator[str]:
    data = results.data
    loads = sorted(unit["load"] for unit in results.units)
    yield (
        f"Made by `{data['command']}`: {len(results.plan.seeds)} seeds, {len(results.units)} units, "
        f"{data['seconds'] / 60:.0f} minutes, {data['cpu'] / 60:.0f} of them on a core, with a load of "
        f"{loads[len(loads) // 2]:.1f} in the median, on {data['card']['cores']} cores of {data['card']['processor']}."
    )


def _halves(results: Results) -> Iterator[str]:
    places = {d: summary.crossing(results, d) for d in results.plan.cost.widths}
    known = {d: place for d, place in places.items() if place is not None}
    if known:
        told = ", ".join(f"{place.mean:,.0f} (d = {d})" for d, place in known.items())
        yield f"Self-attention's n² part takes longer than its projections from n = {told} on; the count says 2d."


def _overtaken(results: Results) -> Iterator[str]:
    d, last = results.plan.cost.widths[-1], results.plan.cost.lengths[-1]
    others = [name for name in results.architectures if name != "Transformer"]
    places = {name: summary.overtaken(results, name, d) for name in others}
    told = ", ".join(f"{name} {f'n = {n:,.0f}' if n else f'not up to {last:,}'}" for name, n in places.items())
    yield f"At d = {d} a layer of attention takes longer than one of as many parameters from this length on: {told}."


def _threads(results: Results) -> Iterator[str]:
    count = results.plan.cost.threads[-1]
    if not summary.quiet(results):
        yield f"What {count} threads bring cannot be told: other work wanted the cores."
        return
    told = _each(results, lambda name: f"{summary.speed_up(results, name):.2f}")
    yield f"On {count} threads a layer is faster than on one by the factors: {told}."


def _gradient(results: Results) -> Iterator[str]:
    far = results.plan.reach.gradients[-2]
    told = _each(results, lambda name: summary.power(summary.gradient(results, name, far).mean))
    yield f"Untrained, the first token's gradient over {far} tokens is this part of the last one's: {told}."


def _recall(results: Results) -> Iterator[str]:
    plan = results.plan.reach
    told = _each(results, lambda name: f"{summary.reach(results, name)}")
    yield (
        f"After {plan.steps} steps the first token is recalled in at least half of the sequences over as many tokens "
        f"(of {', '.join(map(str, plan.distances))} tried): {told}."
    )


def _data(results: Results) -> Iterator[str]:
    sizes = results.plan.data.sizes
    first, last = (_points(summary.gap(results, size)) for size in (sizes[0], sizes[-1]))
    change = summary.narrowing(results)
    narrows = "narrows" if change.low > 0 else "widens" if change.high < 0 else "does not change by more than chance"
    closed = summary.closes(results)
    where = "does not close here" if closed is None else f"is closed, within its interval, from {closed:,} images on"
    yield (
        f"A convolutional net is {first:.1f} points better than a vision Transformer with {sizes[0]:,} images, "
        f"{last:.1f} with {sizes[-1]:,}: the gap {narrows}, and {where}."
    )


def _published(results: Results) -> Iterator[str]:
    told = ", ".join(f"{each.gap:+.1f} with {each.images / 1e6:.3g} million" for each in published.FIGURE_3)
    yield (
        f"Published: {told}".replace("-", "−") + " images to pre-train on (residual net minus best vision Transformer)."
    )


def _streaming(results: Results) -> Iterator[str]:
    first, last = results.plan.streaming.after[0], results.plan.streaming.after[-1]
    ratio = lambda name: summary.frame(results, name, last).mean / summary.frame(results, name, first).mean
    told = _each(results, lambda name: f"{ratio(name):.1f}")
    yield f"A token after {last:,} takes as many times as long as after {first}: {told}."


def _images(results: Results) -> Iterator[str]:
    seeing = [name for name in results.architectures if name in SEEING]
    lost = {name: summary.seen(results, name) for name in seeing}
    shift = ", ".join(f"{name} {summary.points(moved - whole)}" for name, (whole, moved, _) in lost.items())
    mixed = ", ".join(f"{name} {summary.points(other - whole)}" for name, (whole, _, other) in lost.items())
    by = results.plan.bias.shifts[-1]
    yield (
        f"A shift of the test images by {by} pixels changes the accuracy by as many points: {shift}; patches mixed in "
        f"one order for learning and testing: {mixed}."
    )


def _longer(results: Results) -> Iterator[str]:
    bias = results.plan.bias
    n = str(bias.longer[-1])
    names = [kind for name in results.architectures for kind in (VARIANTS if name == "Transformer" else [name])]
    right = lambda kind: results.over("bias", "longer", lambda unit: unit["accuracy"][n], architecture=kind).mean
    told = ", ".join(f"{kind.replace(', ', ' (') + ')' * (',' in kind)} {right(kind):.0%}" for kind in names)
    yield f"Right answers on sequences of {n} after learning from {bias.length}, chance 12.5 %: {told}."


def _points(gap: Estimate) -> Estimate:
    return Estimate(100 * gap.mean, None if gap.half is None else 100 * gap.half, gap.seeds)
