"""The tables of a comparison, made from its file of results alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from glassformer.lab.comparison import published, summary
from glassformer.lab.comparison.bias import GRIDS, SEEING
from glassformer.lab.comparison.results import Estimate, Results, estimate
from glassformer.lab.comparison.streaming import WINDOWED


class Table(NamedTuple):
    """`note` says how it was measured."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str


def tables(results: Results) -> list[Table]:
    """Every table for which the results have numbers."""
    made = {
        "cost": (times, exponents, crossings, memory, threads),
        "reach": (gradients, recall),
        "data": (data, beside),
        "streaming": (streaming,),
        "bias": (images, features, longer),
    }
    return [make(results) for task, makers in made.items() if results.has(task) for make in makers]


def _ms(seconds: Estimate) -> str:
    value = Estimate(1e3 * seconds.mean, None if seconds.half is None else 1e3 * seconds.half, seconds.seeds)
    return f"{value:,.0f}" if value.mean >= 100 else f"{value:.1f}" if value.mean >= 10 else f"{value:.2f}"


def times(results: Results) -> Table:
    """Forward and backward at both ends and in the middle of the lengths, at the middle width."""
    cost = results.plan.cost
    d = cost.widths[len(cost.widths) // 2]
    lengths = sorted({cost.lengths[0], cost.lengths[len(cost.lengths) // 2], cost.lengths[-1]})
    rows = []
    for name in results.architectures:
        cells = [
            _ms(estimate(summary.times(results, kind, name, n=n, d=d))) for n in lengths for kind in ("forward", "both")
        ]
        first = results.select("cost", "layer", n=lengths[0], d=d)[0]
        rows.append((name, f"{first['parameters'][name]:,}", *cells))
    head = [f"n = {n}, {kind}" for n in lengths for kind in ("forward", "and back")]
    note = (
        "Milliseconds of processor time of one layer on one sequence, one thread, float32; the best of the rounds of "
        "a seed, all layers taking turns; mean over seeds ± 95 % by Student's t. torch has one fused kernel for the "
        "LSTM, and runs the plain RNN and the GRU step by step."
    )
    return Table(f"Time of a layer, d = {d}", ("", "parameters", *head), rows, note)


def exponents(results: Results) -> Table:
    rows = []
    for name in results.architectures:
        n, d = summary.in_n(results, name), summary.in_d(results, name)
        formula = "4nd² + 2n²d" if name == "Transformer" else "4nd²"
        cells = (f"{n.measured:.2f}", f"{n.counted:.2f}", f"{d.measured:.2f}", f"{d.counted:.2f}")
        rows.append((name, formula, *cells))
    cost = results.plan.cost
    note = (
        f"p of t ≈ c·n^p (upper half of the lengths, d = {cost.widths[0]}) and of t ≈ c·d^p (upper half of the widths, "
        f"n = {cost.lengths[-1]}), forward and back; “counted” is the same fit to the multiplications "
        "of glassformer.core.cost, which at these sizes is not yet the limit of 2 or 1."
    )
    head = ("", "multiplications", "in n, timed", "in n, counted", "in d, timed", "in d, counted")
    return Table("Exponents", head, rows, note)


def crossings(results: Results) -> Table:
    rows = []
    others = [name for name in results.architectures if name != "Transformer"]
    for d in results.plan.cost.widths:
        halves = summary.crossing(results, d)
        passed = (summary.overtaken(results, other, d) for other in others)
        cells = ("not here" if n is None else f"{n:.0f}" for n in passed)
        rows.append((str(d), str(2 * d), "not here" if halves is None else f"{halves:.0f}", *cells))
    note = (
        "The length from which attention's n² part (scores and mixing) takes longer than its projections, by formula "
        "and as timed forward; then the length from which a layer of self-attention takes longer than each other "
        "layer of "
        f"as many parameters, forward and back (“{results.plan.cost.lengths[0]}”: from the shortest measured on)."
    )
    head = ("d", "n² part larger, counted (2d)", "n² part larger, timed", *(f"slower than {name}" for name in others))
    return Table("The crossing n ≈ d", head, rows, note)


def memory(results: Results) -> Table:
    cost = results.plan.cost
    d, lengths = cost.widths[0], cost.lengths[::2]
    rows = []
    for name in results.architectures:
        peaks = [results.select("cost", "memory", n=n, d=d)[0]["peak"][name] for n in lengths]
        rows.append((name, *(f"{peak / 1e6:.3g}" for peak in peaks)))
    note = (
        "MB that torch's allocator held at most while a layer ran forward and back, above its weights and input, "
        "from the "
        "events of torch's profiler; the same for every seed. Fused attention keeps no n × n weights, so it grows as n."
    )
    return Table(f"Memory of a layer, d = {d}", ("", *(f"n = {n}" for n in lengths)), rows, note)


def threads(results: Results) -> Table:
    cost = results.plan.cost
    rows = [
        (name, f"{summary.speed_up(results, name):.2f}", f"{summary.rate(results, name):.2g}")
        for name in results.architectures
    ]
    note = (
        f"t(1 thread) / t({cost.threads[-1]} threads), forward and back, n = {cost.thread_length}, d = "
        f"{cost.thread_width}, "
        "taking turns, the best of all seeds, by the clock on the wall. "
        f"{summary.load(results):.1f} processes wanted a core, this one included: with half a core of others or more a "
        "second thread brings a second share of the machine, and the number says nothing. And billions of "
        "multiplications a second on one thread, forward, in processor time."
    )
    head = ("", f"speed-up by {cost.threads[-1]} threads", "billions of multiplications a second")
    return Table("Parallelisation", head, rows, note)


def gradients(results: Results) -> Table:
    distances = results.plan.reach.gradients
    rows = [
        (name, *(f"{summary.gradient(results, name, n).mean:.2g}" for n in distances)) for name in results.architectures
    ]
    note = (
        "‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖ of untrained networks of one budget, mean over seeds. 0: outside what it sees (the "
        f"CNN 253 tokens, the MLP {results.plan.reach.window})."
    )
    return Table("Reach of the gradient", ("", *(f"distance {n}" for n in distances)), rows, note)


def recall(results: Results) -> Table:
    reach = results.plan.reach
    rows = [
        (name, *(f"{summary.recalled(results, name, n):.0%}" for n in reach.distances))
        for name in results.architectures
    ]
    note = (
        f"How often the first token is said rightly after so many others; chance is 12.5 %. Networks of about "
        f"{reach.budget:,} parameters, each trained on that distance for {reach.steps} steps of {reach.batch} "
        "sequences; "
        "± 95 % over seeds. The CNN sees 253 tokens, the MLP "
        f"{reach.window}."
    )
    return Table("Recall", ("", *(f"distance {n}" for n in reach.distances)), rows, note)


def data(results: Results) -> Table:
    plan = results.plan.data
    rows = []
    for size in plan.sizes:
        both = (summary.learned(results, name, size) for name in ("Transformer", "CNN"))
        gap = summary.gap(results, size)
        points = Estimate(100 * gap.mean, None if gap.half is None else 100 * gap.half, gap.seeds)
        rows.append((f"{size:,}", *(f"{accuracy:.1%}" for accuracy in both), f"{points:.1f}"))
    closed = summary.closes(results)
    where = "It does not close here" if closed is None else f"From {closed:,} images on its interval holds 0 or less"
    note = (
        f"Test accuracy on {plan.source}, from scratch, about {plan.budget:,} parameters each, {plan.steps} steps of "
        f"{plan.batch} images whatever the size; the gap is CNN − ViT in points, ± 95 % over seeds. {where}."
    )
    return Table("Accuracy as the training set grows", ("images", "ViT", "CNN", "gap"), rows, note)


def beside(results: Results) -> Table:
    """The published curve, on the sizes that it has."""
    rows = [
        (
            f"{each.data}, {each.images / 1e6:.3g} million",
            f"{each.base:.2f}",
            f"{each.large:.2f}",
            "–" if each.huge is None else f"{each.huge:.2f}",
            f"{each.residual:.2f}",
            f"{each.gap:+.2f}".replace("-", "−"),
        )
        for each in published.FIGURE_3
    ]
    largest = max(results.plan.data.sizes)
    note = (
        f"{published.NOTE} The sizes begin {published.FIGURE_3[0].images / largest:.0f} times above the largest here."
    )
    head = ("pre-trained on", "ViT-B/16", "ViT-L/16", "ViT-H/14", "BiT ResNet152x4", "gap")
    return Table("The published curve", head, rows, note)


def streaming(results: Results) -> Table:
    after = results.plan.streaming.after
    names = [*results.architectures, *([WINDOWED] if "Transformer" in results.architectures else [])]
    rows = []
    for name in names:
        times = (_ms(summary.frame(results, name, n)) for n in after)
        rows.append((name, *times, *(f"{summary.held(results, name, n):,}" for n in (after[0], after[-1]))))
    note = (
        "Milliseconds of processor time for one more token, best of the rounds of a seed, all taking turns; and how "
        f"many numbers are kept for it. About {results.plan.streaming.budget:,} parameters each; the window, and "
        f"what the MLP sees, is {results.plan.streaming.window} tokens."
    )
    head = ("", *(f"after {n:,}" for n in after), f"kept after {after[0]:,}", f"kept after {after[-1]:,}")
    return Table("Streaming", head, rows, note)


def images(results: Results) -> Table:
    bias = results.plan.bias
    rows = []
    for name in _seeing(results):
        over = lambda number, order, name=name: results.over("bias", "images", number, architecture=name, order=order)
        whole = over(lambda unit: unit["accuracy"], "whole")
        moved = [over(lambda unit, by=by: unit["shifted"][str(by)], "whole") for by in bias.shifts]
        mixed = over(lambda unit: unit["mixed"], "whole")
        learned = over(lambda unit: unit["accuracy"], "shuffled")
        rows.append((name, *(f"{each:.0%}" for each in (whole, *moved, mixed, learned))))
    note = (
        f"Test accuracy after learning from {bias.images:,} images of {results.plan.data.source}: as they are, "
        "shifted down and right, with patches in one other order; and of networks that learned from images in that "
        "order. ± 95 % over seeds."
    )
    head = ("", "as learned", *(f"shifted by {by}" for by in bias.shifts), "patches mixed", "learned from mixed")
    return Table("Shifted and shuffled images", head, rows, note)


def features(results: Results) -> Table:
    rows = []
    for name in GRIDS:
        if name in results.architectures:
            over = lambda key, name=name: results.over("bias", "features", lambda unit: unit[key], architecture=name)
            stride = results.select("bias", "features", architecture=name)[0]["stride"]
            cells = (f"{over(f'off by one {what}'):.2g}" for what in ("pixel", "stride"))
            rows.append((name, str(stride), *cells))
    note = (
        "‖f(shift x) − shift f(x)‖ / ‖f(x)‖ of untrained features, images on a dark ground far from the border, by one "
        "pixel (the better of no shift and one) and by one whole stride."
    )
    return Table("Shift of the input, shift of the features", ("", "stride", "one pixel", "one stride"), rows, note)


def longer(results: Results) -> Table:
    bias = results.plan.bias
    rows = []
    for name in _read_longer(results):
        found = results.select("bias", "longer", architecture=name)
        over = (estimate(unit["accuracy"][str(n)] for unit in found) for n in bias.longer)
        rows.append((name, *(f"{each:.0%}" for each in over)))
    note = (
        f"Learned to say the last token but one of sequences of {bias.length} (MLP: of its window of as many); asked "
        f"about longer ones. Chance is 12.5 %; {bias.sequence_steps} steps; ± 95 % over seeds."
    )
    return Table("Longer than trained", ("", *(f"length {n}" for n in bias.longer)), rows, note)


def _seeing(results: Results) -> list[str]:
    return [name for name in results.architectures if name in SEEING]


def _read_longer(results: Results) -> Iterator[str]:
    seen: dict[str, None] = {}
    for unit in results.units:
        if unit["part"] == "longer":
            seen[unit["settings"]["architecture"]] = None
    yield from seen
