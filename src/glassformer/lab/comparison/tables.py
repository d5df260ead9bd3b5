"""The tables and findings of a comparison, and the sections of Markdown files made from them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from glassformer.errors import InputError
from glassformer.lab.comparison import published
from glassformer.lab.comparison import results as r
from glassformer.lab.comparison.bias import NETWORKS, TRAINED, WITH_FEATURES
from glassformer.lab.comparison.plan import TASKS
from glassformer.lab.comparison.reach import longer_names
from glassformer.lab.comparison.results import Estimate, Results, estimate
from glassformer.lab.comparison.streaming import streaming_architectures as streaming_names


class ResultTable(NamedTuple):
    """A table of results; `note` describes how it was measured, `figure` names the figure that shows it as curves."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str
    figure: str = ""


def tables(results: Results) -> list[ResultTable]:
    """Return every table for which there are results."""
    makers: dict[str, dict[Callable[[Results], ResultTable], str]] = {
        "reach": {recall: "reach", longer: "longer", gradients: "reach"},
        "bias": {shifts: "shifts", features: "shifts"},
        "streaming": {streaming: "streaming"},
        "cost": {times: "cost", exponents: "cost", crossings: "crossing", memory: "cost", threads: ""},
        "data": {data: "data", published_gap: "data"},
    }
    found = [
        make(results)._replace(figure=figure)
        for task, each in makers.items()
        if results.has(task)
        for make, figure in each.items()
    ]
    searched = [task for task in ("reach", "bias", "data") if results.has(task)]
    return [*found, rates(results)] if searched else found


def _ms(seconds: Estimate) -> str:
    value = seconds.times(1e3)
    return f"{value:,.0f}" if value.mean >= 100 else f"{value:.1f}" if value.mean >= 10 else f"{value:.2f}"


def _points(change: Estimate) -> str:
    return f"{change.times(100):+.1f}".replace("-", "−").replace("+0.0 ", "0.0 ")


def recall(results: Results) -> ResultTable:
    plan, rows = results.plan.reach, []
    for name in results.architectures:
        cells = []
        for n in plan.distances:
            found = r.recalled(results, name, n)
            cells.append(f"{r.learned(results, name, n)}/{len(found)} ({estimate(found).mean:.0%})")
        rows.append((name, *cells))
    note = (
        f"How many seeds learned to recall the first token at this distance (test accuracy of at least "
        f"{r.LEARNED:.0%}), and the mean accuracy of all seeds; chance is 12.5 %. About {plan.budget:,} parameters "
        f"each, trained at that distance for {plan.steps} steps with batches of {plan.batch_size} sequences, with the "
        f"learning rate that was best on validation sequences. The receptive field of the CNN is 253 tokens, the "
        f"window of the MLP {plan.window} tokens."
    )
    return ResultTable("Recall after training", ("", *(f"distance {n}" for n in plan.distances)), rows, note)


def longer(results: Results) -> ResultTable:
    plan = results.plan.reach
    names = longer_names(results.architectures)
    rows = [(name, *(f"{r.longer(results, name, n):.0%}" for n in plan.longer)) for name in names]
    note = (
        f"Accuracy of predicting the second-to-last token, after training on sequences of {plan.length} tokens (which "
        f"is also the window of the MLP) for {plan.longer_steps} steps. Chance is 12.5 %; ± 95 % over seeds."
    )
    return ResultTable("Sequences longer than in training", ("", *(f"length {n}" for n in plan.longer)), rows, note)


def gradients(results: Results) -> ResultTable:
    distances = results.plan.reach.gradients
    rows = [(name, *(f"{r.gradient(results, name, n).mean:.2g}" for n in distances)) for name in results.architectures]
    note = (
        "‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖ before training, mean over seeds. It describes the start of training, not what can "
        "be learned, which is the recall after training. 0 means outside the receptive field."
    )
    return ResultTable("Gradient before training", ("", *(f"distance {n}" for n in distances)), rows, note)


def shifts(results: Results) -> ResultTable:
    bias, rows = results.plan.bias, []
    for name in _image_networks(results):
        for way in TRAINED:
            stride = results.select("bias", "images", architecture=name, trained=way)[0]["stride"]
            cells = (f"{r.on_shifted(results, name, way, by):.1%}" for by in (0, *bias.shifts))
            rows.append((f"{name}, trained on {way} images", str(stride), *cells))
    note = (
        f"Test accuracy on {bias.dataset} after training on {bias.images:,} images, with a margin of "
        f"{max(bias.shifts)} pixels around each image so that a shift moves nothing out of it; ± 95 % over seeds. A "
        "CNN commutes with shifts by its stride away from the border, but its zero padding marks the border, and "
        "smaller shifts fall between the strides. Training on centred images alone does not teach any network to "
        "ignore the position."
    )
    head = ("", "stride", "centred", *(f"shifted by {by}" for by in bias.shifts))
    return ResultTable("Shifted images", head, rows, note)


def features(results: Results) -> ResultTable:
    rows = []
    for name in WITH_FEATURES:
        if name in results.architectures:
            over = lambda key, name=name: results.over("bias", "features", lambda unit: unit[key], architecture=name)
            stride = results.select("bias", "features", architecture=name)[0]["stride"]
            rows.append((name, str(stride), *(f"{over(what):.2g}" for what in ("one pixel", "one stride"))))
    note = (
        "‖f(shift x) − shift f(x)‖ / ‖f(x)‖ of the features before training, for images far from the border that are "
        "shifted by one pixel (the better of the two nearest shifts of the features) and by one stride."
    )
    return ResultTable("Features of shifted images", ("", "stride", "one pixel", "one stride"), rows, note)


def _image_networks(results: Results) -> list[str]:
    return [name for name in results.architectures if name in NETWORKS]


def streaming(results: Results) -> ResultTable:
    after, rows = results.plan.streaming.after, []
    for name in streaming_names(results.architectures):
        each = (_ms(r.token_time(results, name, n)) for n in after)
        rows.append((name, *each, *(f"{r.kept(results, name, n):,}" for n in (after[0], after[-1]))))
    note = (
        "Milliseconds of processor time for one more token, the best of interleaved rounds for each seed; and how many "
        f"values are kept in memory for it. About {results.plan.streaming.budget:,} parameters each; the window of the "
        f"Transformer and of the MLP is {results.plan.streaming.window} tokens."
    )
    head = ("", *(f"after {n:,}" for n in after), f"kept after {after[0]:,}", f"kept after {after[-1]:,}")
    return ResultTable("Streaming", head, rows, note)


def times(results: Results) -> ResultTable:
    """Tabulate forward and backward times at the shortest, middle and longest length, at the middle width."""
    cost = results.plan.cost
    d = cost.widths[len(cost.widths) // 2]
    lengths = sorted({cost.lengths[0], cost.lengths[len(cost.lengths) // 2], cost.lengths[-1]})
    rows = []
    for name in results.architectures:
        cells = [_ms(estimate(r.times(results, kind, name, n=n, d=d))) for n in lengths for kind in ("forward", "both")]
        first = results.select("cost", "layer", n=lengths[0], d=d)[0]
        rows.append((name, f"{first['parameters'][name]:,}", *cells))
    head = [f"n = {n}, {kind}" for n in lengths for kind in ("forward", "+ backward")]
    note = (
        "Milliseconds of processor time of one layer on one sequence, with one thread in float32: the best of "
        "interleaved rounds for each seed, mean ± 95 % over seeds. torch has a fused CPU kernel for the LSTM and runs "
        "the plain RNN and the GRU step by step."
    )
    return ResultTable(f"Time of a layer, d = {d}", ("", "parameters", *head), rows, note)


def exponents(results: Results) -> ResultTable:
    rows = []
    for name in results.architectures:
        n, d = r.exponent_in_n(results, name), r.exponent_in_d(results, name)
        formula = "4nd² + 2n²d" if name == "Transformer" else "4nd²"
        cells = (f"{n.measured:.2f}", f"{n.counted:.2f}", f"{d.measured:.2f}", f"{d.counted:.2f}")
        rows.append((name, formula, *cells))
    cost = results.plan.cost
    lengths, widths = (", ".join(map(str, r.upper(sizes))) for sizes in (cost.lengths, cost.widths))
    note = (
        f"p of t ≈ c·n^p (n = {lengths}; d = {cost.widths[0]}) and of t ≈ c·d^p (d = {widths}; n = "
        f"{cost.lengths[-1]}), forward and backward. “Counted” is the same fit to the multiplications of "
        "glassformer.core.cost, which have not yet reached their limits of 2 and 1 at these sizes. Times grow more "
        "slowly where the overhead of small operations is a large part of them."
    )
    head = ("", "multiplications", "in n, timed", "in n, counted", "in d, timed", "in d, counted")
    return ResultTable("Exponents", head, rows, note)


def crossings(results: Results) -> ResultTable:
    others, rows = [name for name in results.architectures if name != "Transformer"], []
    for d in results.plan.cost.widths:
        place = r.crossing(results, d)
        overtaken = [r.overtaken(results, name, d) for name in others]
        cells = (f"{n:,.0f}" if n else "never" for n in overtaken)
        rows.append((str(d), str(2 * d), "outside" if place is None else f"{place:,.0f}", *cells))
    note = (
        "The length from which the n² part of self-attention takes longer than its projections, by the formula and as "
        "timed in the forward pass; and the length from which a layer of self-attention takes longer than each other "
        "layer with as many parameters, forward and backward "
        f"(“{results.plan.cost.lengths[0]}” means from the shortest length on)."
    )
    head = ("d", "n² part larger, counted (2d)", "n² part larger, timed", *(f"slower than {name}" for name in others))
    return ResultTable("The crossing n ≈ 2d", head, rows, note)


def memory(results: Results) -> ResultTable:
    cost = results.plan.cost
    d, lengths, rows = cost.widths[0], cost.lengths[::2], []
    for name in results.architectures:
        peaks = [results.select("cost", "memory", n=n, d=d)[0]["peak"][name] for n in lengths]
        rows.append((name, *(f"{peak / 1e6:.3g}" for peak in peaks)))
    note = (
        "Peak memory in MB of a forward and backward pass, without weights and input, according to torch's profiler; "
        "it does not depend on the seed. Fused attention does not store the n × n weights."
    )
    return ResultTable(f"Memory of a layer, d = {d}", ("", *(f"n = {n}" for n in lengths)), rows, note)


def threads(results: Results) -> ResultTable:
    cost = results.plan.cost
    speed = lambda name: f"{r.speed_up(results, name):.2f}" if r.quiet(results) else "not measurable"
    rows = [(name, speed(name), f"{r.rate(results, name):.2g}") for name in results.architectures]
    note = (
        f"t(1 thread) / t({cost.threads[-1]} threads), forward and backward, n = {cost.thread_length}, d = "
        f"{cost.thread_width}, wall-clock time, the best of all seeds. The lowest load of the machine was "
        f"{r.load_when_threaded(results):.1f}; above 1.5, other processes share the cores and the speed-up is "
        "meaningless. Multiplications per second are those of the forward pass on one thread, in processor time."
    )
    head = ("", f"speed-up with {cost.threads[-1]} threads", "10⁹ multiplications / s")
    return ResultTable("Parallelism", head, rows, note)


def data(results: Results) -> ResultTable:
    plan, rows, notes = results.plan.data, [], []
    for dataset in plan.datasets:
        for size in plan.sizes:
            both = (r.accuracy(results, dataset, name, size) for name in ("Transformer", "CNN"))
            gap = _points(r.gap(results, dataset, size))
            rows.append((dataset, _size(results, size), *(f"{accuracy:.1%}" for accuracy in both), gap))
        notes.append(f"{dataset}: {_narrowing(results, dataset)}.")
    judged = r.judged_sizes(results)
    if len(judged) < len(plan.sizes):
        notes.append(f"Only sizes of up to {judged[-1]:,} images, which have every seed, count for these statements.")
    note = (
        f"Test accuracy after training from scratch: about {plan.budget:,} parameters each, batches of "
        f"{plan.batch_size} images, {_schedule(results)}, no augmentation, each with the learning rate that was best "
        f"on validation images. The gap is CNN − ViT in points; ± 95 % over seeds. {' '.join(notes)}"
    )
    return ResultTable("Accuracy as the training set grows", ("dataset", "images", "ViT", "CNN", "gap"), rows, note)


def _size(results: Results, size: int) -> str:
    """Return the number of images, with that of the seeds if not all were measured."""
    seeds = r.seeds_at(results, size)
    return f"{size:,}" if seeds == len(results.plan.seeds) else f"{size:,} ({seeds} seed{'s' * (seeds > 1)})"


def _schedule(results: Results) -> str:
    plan = results.plan.data
    each = (f"{plan.steps(size):,} steps ({plan.epochs(size):,.0f} epochs) on {size:,} images" for size in plan.sizes)
    return ", ".join(each)


def _narrowing(results: Results, dataset: str) -> str:
    change = r.narrowing(results, dataset)
    how = "narrows" if change.low > 0 else "widens" if change.high < 0 else "does not change by more than chance"
    closed = r.closes(results, dataset)
    where = "does not close" if closed is None else f"no longer favours the CNN from {closed:,} images on"
    return f"the gap {how} and {where}"


def published_gap(results: Results) -> ResultTable:
    """Tabulate the published curve."""
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
    start = published.FIGURE_3[0].images / largest
    note = f"{published.NOTE} The smallest of these datasets is {start:.0f} times the largest one here."
    head = ("pre-trained on", "ViT-B/16", "ViT-L/16", "ViT-H/14", "BiT ResNet152x4", "gap")
    return ResultTable("The published curve", head, rows, note)


def rates(results: Results) -> ResultTable:
    """Tabulate the learning rates chosen by every search."""
    rows = []
    for name, chosen, accuracy in _searches(results):
        rows.append((name, f"{chosen:g}", ", ".join(f"{lr:g}: {each:.0%}" for lr, each in accuracy.items())))
    note = (
        "The learning rate with the best mean validation accuracy (in a tie, the lower validation loss), and the "
        "accuracy of every rate that was tried. Rates, steps and data are the same for all architectures, and no "
        "measurement uses the seed of the search."
    )
    return ResultTable("Learning-rate search", ("", "chosen", "validation accuracy"), rows, note)


def _searches(results: Results) -> Iterator[tuple[str, float, dict[float, float]]]:
    """Yield the name of every search, the rate that it chose, and the mean validation accuracy of each rate."""
    for unit in results.units:
        if unit["part"].endswith("search"):
            found: dict[float, list[float]] = {}
            for each in unit["result"]["trials"]:
                found.setdefault(each["lr"], []).append(each["accuracy"])
            name = ", ".join(map(str, (unit["task"], *unit["settings"].values())))
            yield name, unit["result"]["lr"], {lr: estimate(found[lr]).mean for lr in sorted(found)}


# Findings


def findings(results: Results) -> str:
    """Return a Markdown list of sentences whose numbers all come from the results."""
    makers: dict[str, tuple[Callable[[Results], Iterator[str]], ...]] = {
        "reach": (_recall, _longer, _gradient),
        "bias": (_shift,),
        "streaming": (_streaming,),
        "cost": (_halves, _overtaken, _threads),
        "data": (_data,),
    }
    sentences = [text for task, each in makers.items() if results.has(task) for make in each for text in make(results)]
    sentences += _edges(results)
    return "\n".join([_made(results), "", *(f"- {text}" for text in sentences)])


def _each(results: Results, value: Callable[[str], str]) -> str:
    return ", ".join(f"{name} {value(name)}" for name in results.architectures)


def _made(results: Results) -> str:
    data = results.data
    commands = ", ".join(f"`{command}`" for command in results.commands)
    return (
        f"Measured by {commands}: {len(results.plan.seeds)} seeds{_fewer(results)}, {len(results.units)} measurements, "
        f"{data['cpu'] / 60:.0f} minutes of processor time, median load {_median_load(results):.1f}, on "
        f"{data['card']['cores']} cores of {data['card']['processor']}.{_missing(results)}"
    )


def _fewer(results: Results) -> str:
    """Return the training set sizes with fewer seeds, in brackets."""
    sizes = [size for size in results.plan.data.sizes if results.has("data") and size not in r.judged_sizes(results)]
    return f" ({', '.join(f'{r.seeds_at(results, size)} with {size:,} images' for size in sizes)})" if sizes else ""


def _missing(results: Results) -> str:
    """Return a sentence that names the tasks without results."""
    left = [task for task in TASKS if not results.has(task)]
    return f" Not measured yet: {', '.join(left)}." if left else ""


def _recall(results: Results) -> Iterator[str]:
    plan = results.plan.reach
    for n in plan.distances:
        shares = _each(results, lambda name, n=n: f"{r.learned(results, name, n)}/{len(results.plan.seeds)}")  # type: ignore[misc]
        yield f"Seeds that learned to recall a token at distance {n} within {plan.steps} steps: {shares}."


def _longer(results: Results) -> Iterator[str]:
    plan = results.plan.reach
    lengths = plan.longer[0], plan.longer[-1]
    both = lambda name: " → ".join(f"{r.longer(results, name, n):.0%}" for n in lengths)
    shown = ", ".join(f"{name} {both(name)}" for name in longer_names(results.architectures))
    yield (
        f"Accuracy at the training length of {lengths[0]} tokens → at {lengths[1]} tokens (chance is 12.5 %): "
        f"{shown}."
    )


def _gradient(results: Results) -> Iterator[str]:
    far = results.plan.reach.gradients[-1]
    shown = _each(results, lambda name: r.as_power(r.gradient(results, name, far).mean))
    yield f"Gradient norm of the first of {far + 1} tokens relative to the last, before training: {shown}."


def _shift(results: Results) -> Iterator[str]:
    by = results.plan.bias.shifts[-1]
    for way in TRAINED:
        change = lambda name, way=way: _points(r.shift_loss(results, name, way, by))
        shown = ", ".join(f"{name} {change(name)}" for name in _image_networks(results))
        yield f"Change of accuracy under a shift of {by} pixels, in points, after training on {way} images: {shown}."


def _streaming(results: Results) -> Iterator[str]:
    first, last = results.plan.streaming.after[0], results.plan.streaming.after[-1]
    ratio = lambda name: r.token_time(results, name, last).mean / r.token_time(results, name, first).mean
    shown = _each(results, lambda name: f"{ratio(name):.1f}")
    yield f"Time of the next token after {last:,} tokens, relative to that after {first}: {shown}."


def _halves(results: Results) -> Iterator[str]:
    places = {d: r.crossing(results, d) for d in results.plan.cost.widths}
    known = ", ".join(f"{place.mean:,.0f} (d = {d})" for d, place in places.items() if place is not None)
    if known:
        yield f"The n² part of self-attention takes longer than its projections from n = {known} on (formula: 2d)."


def _overtaken(results: Results) -> Iterator[str]:
    d, last = results.plan.cost.widths[-1], results.plan.cost.lengths[-1]
    places = {name: r.overtaken(results, name, d) for name in results.architectures if name != "Transformer"}
    shown = ", ".join(f"{name} {f'n = {n:,.0f}' if n else f'not up to {last:,}'}" for name, n in places.items())
    slower = "self-attention is slower than another layer with as many parameters from this length on"
    yield f"At d = {d}, {slower}: {shown}."


def _threads(results: Results) -> Iterator[str]:
    count = results.plan.cost.threads[-1]
    if r.quiet(results):
        shown = _each(results, lambda name: f"{r.speed_up(results, name):.2f}")
        yield f"Speed-up of a layer with {count} threads: {shown}."


def _data(results: Results) -> Iterator[str]:
    sizes, epochs = results.plan.data.sizes, results.plan.data.epochs
    yield "Epochs of training: " + ", ".join(f"{epochs(n):,.0f} with {n:,} images" for n in sizes) + "."
    trained = [unit for unit in results.units if unit["task"] == "data" and unit["part"] == "images"]
    minutes = lambda n: sum(unit["cpu"] for unit in trained if unit["settings"]["size"] == n) / 60
    shown = ", ".join(f"{minutes(n):.1f} minutes with {n:,} images" for n in sizes)
    yield f"Processor time of all networks of the data curve: {shown}."
    judged = r.judged_sizes(results)
    more = [size for size in sizes if size > judged[-1]]
    for dataset in results.plan.data.datasets:
        first, last = (_points(r.gap(results, dataset, size)) for size in (judged[0], judged[-1]))
        text = (
            f"{dataset}: CNN minus vision Transformer is {first} points with {judged[0]:,} images and {last} with "
            f"{judged[-1]:,}; {_narrowing(results, dataset)}"
        )
        rest = [f"with {_size(results, n)} it is {_points(r.gap(results, dataset, n))}" for n in more]
        yield "; ".join([text, *rest]) + "."
    shown = ", ".join(f"{each.gap:+.1f} with {each.images / 1e6:.3g} million" for each in published.FIGURE_3)
    yield f"Published: {shown}".replace("-", "−") + " images (residual network minus best vision Transformer)."


def _edges(results: Results) -> Iterator[str]:
    """Name the searches whose best rate is the lowest or the highest tried, and strictly better than the others."""
    found: dict[float, list[str]] = {}
    for name, chosen, accuracy in _searches(results):
        edge = chosen in (min(accuracy), max(accuracy))
        if edge and results.has(name.partition(",")[0]) and list(accuracy.values()).count(accuracy[chosen]) == 1:
            found.setdefault(chosen, []).append(name)
    for rate, names in sorted(found.items()):
        yield (
            f"The best learning rate is {rate:g}, at the edge of the range searched, for {'; '.join(names)}: a rate "
            "outside the range may be better."
        )


# The compact table of the README


def summary_table(results: Results) -> str:
    """Return a table with one row per architecture and columns for the measured tasks."""
    plan, seeds = results.plan, len(results.plan.seeds)
    columns: list[tuple[str, str, Callable[[Results, str], str]]] = []
    if results.has("reach"):
        reach = plan.reach
        distances = " / ".join(map(str, reach.distances))
        columns += [
            (f"recall over {distances} tokens", f"how many of {seeds} seeds learn to recall the first token at "
             f"this distance (test accuracy of at least {r.LEARNED:.0%}; {reach.steps} steps; the MLP reads "
             f"{reach.window} tokens)", _recall_cell),
            (f"trained on {reach.length}, tested on {reach.longer[-1]} tokens", "accuracy of predicting the "
             f"second-to-last token, for which two tokens are enough, at the first → at the second length "
             f"({reach.longer_steps} steps; chance is 12.5 %; the Transformer has rotary positions)", _longer_cell),
        ]  # fmt: skip
    if results.has("bias"):
        columns.append(
            (f"image shifted by {plan.bias.shifts[-1]} pixels", f"change of test accuracy on {plan.bias.dataset} in "
             f"points, after training on {plan.bias.images:,} centred images / with random shifts", _shift_cell)
        )  # fmt: skip
    if results.has("cost"):
        short, n, d = _sizes(results)
        columns += [
            (f"time of a layer, {n:,} tokens", f"ms of processor time, forward and backward, width {d}, one thread; "
             "torch has a fused kernel for the LSTM and runs RNN and GRU step by step", _time_cell),
            (f"relative to {short:,} tokens", f"that time divided by the time for {short:,} tokens", _growth_cell),
        ]  # fmt: skip
    if results.has("streaming"):
        after = plan.streaming.after[-1]
        columns += [
            ("time of the next token", f"ms of processor time after {after:,} tokens", _token_cell),
            ("state", "values kept in memory for that token", _state_cell),
        ]
    head = f"| | {' | '.join(name for name, _, _ in columns)} |\n|---" + "|---" * len(columns) + "|"
    rows = [f"| {name} | {' | '.join(cell(results, name) for *_, cell in columns)} |" for name in results.architectures]
    legend = "\n".join(f"- *{name}*: {meaning}" for name, meaning, _ in columns)
    made = f"{seeds} seeds, mean ± 95 % (Student's t), numbers of parameters within 5 %, the same learning-rate search"
    return "\n".join([head, *rows, "", legend, "", f"{made}; {_machine(results)}.{_missing(results)}"])


def _machine(results: Results) -> str:
    card, (began, ended) = results.data["card"], (results.data[name][:10] for name in ("began", "ended"))
    dates = began if began == ended else f"{began} to {ended}"
    return f"{card['cores']} cores of {card['processor']}, {dates}, median load {_median_load(results):.1f}"


def _median_load(results: Results) -> float:
    return float(median(unit["load"] for unit in results.units))


def _sizes(results: Results) -> tuple[int, int, int]:
    """Return the longest length but one, the longest, and the middle width of the timed layers."""
    cost = results.plan.cost
    return cost.lengths[-2], cost.lengths[-1], cost.widths[len(cost.widths) // 2]


def _recall_cell(results: Results, name: str) -> str:
    return " / ".join(str(r.learned(results, name, n)) for n in results.plan.reach.distances)


def _longer_cell(results: Results, name: str) -> str:
    kind = "Transformer, rotary" if name == "Transformer" else name
    lengths = results.plan.reach.longer
    return " → ".join(f"{r.longer(results, kind, n):.0%}" for n in (lengths[0], lengths[-1]))


def _shift_cell(results: Results, name: str) -> str:
    if name not in NETWORKS:
        return "–"
    by = results.plan.bias.shifts[-1]
    return " / ".join(_points(r.shift_loss(results, name, way, by)) for way in TRAINED)


def _time_cell(results: Results, name: str) -> str:
    _, n, d = _sizes(results)
    return _ms(estimate(r.times(results, "both", name, n=n, d=d)))


def _growth_cell(results: Results, name: str) -> str:
    short, n, d = _sizes(results)
    both = zip(*(r.times(results, "both", name, n=length, d=d) for length in (short, n)), strict=True)
    return f"× {estimate(long / few for few, long in both):.1f}"


def _token_cell(results: Results, name: str) -> str:
    return _ms(r.token_time(results, name, results.plan.streaming.after[-1]))


def _state_cell(results: Results, name: str) -> str:
    return f"{r.kept(results, name, results.plan.streaming.after[-1]):,}"


# Sections of Markdown files

SECTIONS: dict[str, Callable[[Results], str]] = {"comparison": summary_table, "findings": findings}


def require_markers(path: Path) -> str:
    """Return the text of a Markdown file, which must have a section to fill."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give a Markdown file") from None
    if not any(_between(name).search(text) for name in SECTIONS):
        markers = " or ".join(f"<!-- {name} --> … <!-- /{name} -->" for name in SECTIONS)
        raise InputError(f"{path} has no {markers}", "put both markers where the table or the findings belong")
    return text


def section(results: Results, name: str, path: Path) -> str:
    """Return the text to insert between the markers, with a link to the results."""
    place = os.path.relpath(results.path.resolve(), path.resolve().parent)
    return f"{SECTIONS[name](results)}\n\nAll measurements: [{results.path.name}]({place}).\n"


def update(results: Results, path: Path) -> None:
    """Rewrite the sections between the markers of a Markdown file."""
    text = require_markers(path)
    for name in SECTIONS:
        made = section(results, name, path)
        text = _between(name).sub(lambda match, made=made: match[1] + made + match[2], text)  # type: ignore[misc]
    path.write_text(text, encoding="utf-8")


def _between(name: str) -> re.Pattern[str]:
    return re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
