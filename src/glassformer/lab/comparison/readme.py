"""The comparison table of the README, between its markers: every cell a number from the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import InputError
from glassformer.lab.comparison import summary
from glassformer.lab.comparison.results import Results

BEGIN, END = "<!-- comparison -->", "<!-- /comparison -->"
SEEING, EQUIVARIANT = ("Transformer", "CNN", "MLP"), ("Transformer", "CNN")


class Discipline(NamedTuple):
    """Something that can be best at: `told` says it with the number."""

    name: str
    value: Callable[[Results, str], float | None]  # None: does not take part
    lower: bool
    told: Callable[[float], str]


def _ms(text: str) -> Callable[[float], str]:
    return lambda value: f"{text} ({milliseconds(value)})"


def milliseconds(seconds: float) -> str:
    value = 1e3 * seconds
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"


def _share(text: str) -> Callable[[float], str]:
    return lambda value: f"{text} ({value:.0%})"


def disciplines(results: Results) -> list[Discipline]:
    """What the best use is chosen from."""
    plan = results.plan
    near, far = plan.reach.distances[1], plan.reach.distances[-1]
    few, many, frames = plan.data.sizes[0], plan.data.sizes[-1], plan.streaming.after[-1]
    short, long, d = plan.cost.lengths[0], plan.cost.lengths[-1], plan.cost.widths[-1]
    time = lambda n: lambda r, name: min(summary.times(r, "both", name, n=n, d=d))
    pictures = lambda size: (
        lambda r, name: summary.learned(r, name, size).mean if name in ("Transformer", "CNN") else None
    )
    recalled = lambda n: lambda r, name: summary.recalled(r, name, n).mean
    gradient = plan.reach.gradients[-1]
    return [
        Discipline(
            "gradient",
            lambda r, name: (
                summary.gradient(r, name, gradient).mean if summary.gradient(r, name, gradient).mean > 1e-6 else None
            ),  # else nothing arrives
            False,
            lambda value: f"long range: gradient over {gradient:,} tokens ({value:.0e} of the last token's)",
        ),
        Discipline("far recall", recalled(far), False, _share(f"recall over {far} tokens")),
        Discipline("near recall", recalled(near), False, _share(f"recall over {near} tokens")),
        Discipline("few images", pictures(few), False, _share(f"few images: {few:,}")),
        Discipline("many images", pictures(many), False, _share(f"many images: {many:,}")),
        Discipline(
            "streams",
            lambda r, name: summary.frame(r, name, frames).mean,
            True,
            _ms(f"streams: a token after {frames:,}"),
        ),
        Discipline(
            "state",
            lambda r, name: float(summary.held(r, name, frames)),
            True,
            lambda value: f"small state: {value:.0f} numbers after {frames:,} tokens",
        ),
        Discipline("short", time(short), True, _ms(f"short inputs: a layer on n = {short}")),
        Discipline("long", time(long), True, _ms(f"long inputs: a layer on n = {long:,}")),
        Discipline(
            "longer", _longer, False, _share(f"lengths of {plan.bias.longer[-1]} after training on {plan.bias.length}")
        ),
    ]


def _longer(results: Results, name: str) -> float | None:
    kinds = ("Transformer, learned", "Transformer, rotary") if name == "Transformer" else (name,)
    n = str(results.plan.bias.longer[-1])
    return max(
        results.over("bias", "longer", lambda unit: unit["accuracy"][n], architecture=kind).mean for kind in kinds
    )


def best_use(results: Results, name: str) -> str:
    """The discipline in which it does best: fewest others ahead, then fewest as good, then farthest from the median."""

    def standing(discipline: Discipline) -> tuple[int, int, float]:
        values = {other: discipline.value(results, other) for other in results.architectures}
        known = {other: value if discipline.lower else -value for other, value in values.items() if value is not None}
        if name not in known:
            return len(results.architectures), 0, 0.0
        own, others = known[name], [value for other, value in known.items() if other != name]
        middle = sorted(known.values())[len(known) // 2]
        return sum(x < own for x in others), sum(x == own for x in others), own / abs(middle) if middle else own

    chosen = min(disciplines(results), key=standing)
    value = chosen.value(results, name)
    assert value is not None
    ahead, ties, _ = standing(chosen)
    place = f", {ahead + 1} of {len(results.architectures)}" if ahead else ""
    return chosen.told(value) + place + (f", like {ties} other{'s' * (ties > 1)}" if ties else "")


def table(results: Results) -> str:
    """Rows are architectures; each cell says what was measured."""
    missing = [task for task in ("cost", "reach", "data", "streaming", "bias") if not results.has(task)]
    if missing:
        raise InputError(f"{results.path} has no {', '.join(missing)}", "carry out a whole plan")
    plan = results.plan
    head = "| | parallelisation | long-range reach | cost of a layer | inductive bias | best use |\n" + "|---" * 6 + "|"
    rows = [
        f"| {name} | {_parallel(results, name)} | {_reach(results, name)} | {_cost(results, name)} | "
        f"{_bias(results, name)} | {best_use(results, name)} |"
        for name in results.architectures
    ]
    about = (
        f"Parallelisation: billions of multiplications a second on one core{_threads(results)}. Reach: the longest of "
        "the "
        f"distances {', '.join(map(str, plan.reach.distances))} at which the first token is recalled in at least half "
        "of "
        f"the sequences, and ∂y_n/∂x_1 over {plan.reach.gradients[-2]} tokens as a part of ∂y_n/∂x_n. "
        f"Cost: exponents in n and d as timed, and ms forward and back at n = {_middle(results)[0]:,}, d = "
        f"{_middle(results)[1]}. "
        "Bias: accuracy lost by a shift of "
        f"{plan.bias.shifts[-1]} pixels and by learning from images with mixed patches, in points; "
        "‖f(shift x) − shift f(x)‖ / ‖f(x)‖ for one stride; sequences: "
        "accuracy at "
        f"length {plan.bias.longer[-1]} after training on {plan.bias.length} (chance 12.5 %). Best use: where it "
        "stands best "
        f"among {len(disciplines(results))} measurements. "
        f"{len(plan.seeds)} seeds, matched parameters, {results.data['card']['processor']}, "
        f"{results.data['began'][:10]}."
    )
    return f"{head}\n" + "\n".join(rows) + f"\n\n{about}"


def _middle(results: Results) -> tuple[int, int]:
    cost = results.plan.cost
    return cost.lengths[len(cost.lengths) // 2 + (len(cost.lengths) > 3)], cost.widths[len(cost.widths) // 2]


def _parallel(results: Results, name: str) -> str:
    speed = f"{summary.rate(results, name).mean:.2g} G/s"
    return f"{speed}, × {summary.speed_up(results, name):.1f}" if summary.quiet(results) else speed


def _threads(results: Results) -> str:
    count = results.plan.cost.threads[-1]
    if summary.quiet(results):
        return f", and speed-up by {count} threads"
    return f" (the speed-up by {count} threads cannot be told on a machine as busy as this one was)"


def _reach(results: Results, name: str) -> str:
    value = summary.gradient(results, name, results.plan.reach.gradients[-2]).mean
    return (
        f"{summary.reach(results, name)} tokens, ∂ {value:.0e}"
        if value
        else f"{summary.reach(results, name)} tokens, ∂ 0"
    )


def _cost(results: Results, name: str) -> str:
    n, d = _middle(results)
    time = milliseconds(min(summary.times(results, "both", name, n=n, d=d)))
    in_n, in_d = (f(results, name).measured.mean for f in (summary.in_n, summary.in_d))
    return f"n^{in_n:.1f} d^{in_d:.1f}, {time}"


def _bias(results: Results, name: str) -> str:
    bias = results.plan.bias
    parts = []
    if name in SEEING:
        over = lambda number, order: results.over("bias", "images", number, architecture=name, order=order).mean
        whole = over(lambda unit: unit["accuracy"], "whole")
        moved = over(lambda unit: unit["shifted"][str(bias.shifts[-1])], "whole")
        mixed = over(lambda unit: unit["accuracy"], "shuffled")
        parts.append(f"shift −{100 * (whole - moved):.0f}, mixed {100 * (mixed - whole):+.0f}".replace("+-", "−"))
        if name in EQUIVARIANT:
            off = results.over("bias", "features", lambda unit: unit["off by one stride"], architecture=name).mean
            parts.append(f"features off {off:.2g}")
    longer = _longer(results, name)
    assert longer is not None
    return ", ".join([*parts, f"longer {longer:.0%}"]).replace("mixed -", "mixed −")


def update(results: Results, path: Path) -> None:
    """The table between the markers of a Markdown file, replaced."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give a Markdown file") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{path} has no {BEGIN} … {END}", "put both lines where the table is to stand")
    path.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")
