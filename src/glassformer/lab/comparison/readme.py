"""The comparison table of the README and the findings of docs/compare.md, between their markers: made from results."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from glassformer.errors import InputError
from glassformer.lab.comparison import summary
from glassformer.lab.comparison.bias import GRIDS, SEEING
from glassformer.lab.comparison.findings import findings
from glassformer.lab.comparison.plan import TASKS
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.uses import best_use, milliseconds, uses

COLUMNS = ("parallelisation", "long-range reach", "cost of a layer", "inductive bias", "best use")


def table(results: Results) -> str:
    """Rows are architectures; each cell says what was measured."""
    cells: tuple[Callable[[Results, str], str], ...] = (_parallel, _reach, _cost, _bias, best_use)
    head = f"| | {' | '.join(COLUMNS)} |\n|---" + "|---" * len(cells) + "|"
    rows = [f"| {name} | {' | '.join(cell(results, name) for cell in cells)} |" for name in results.architectures]
    return "\n".join([head, *rows, "", *_legend(results)])


def _legend(results: Results) -> list[str]:
    plan = results.plan
    n, d = _middle(results)
    count, length = plan.cost.threads[-1], plan.bias.longer[-1]
    busy = "" if summary.quiet(results) else " (cannot be told: other work wanted the cores)"
    return [
        f"- **Parallelisation**: how much faster a layer is on {count} threads than on one, forward and back{busy}; "
        "G mult./s: billions of multiplications a second.",
        "- **Reach**: how far back the first token is recalled in at least half of the sequences, once trained (of "
        f"{', '.join(map(str, plan.reach.distances))} tried); the gradient ‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖ over "
        f"{_far(results)} tokens, untrained.",
        f"- **Cost**: how time grows with length n and width d, as timed; forward and back at n = {n:,}, d = {d}.",
        "- **Bias**: ‖f(shift x) − shift f(x)‖ / ‖f(x)‖ of features for a shift by one stride; by how many points "
        f"accuracy changes when test images are shifted by {plan.bias.shifts[-1]} pixels, and when all images are cut "
        f"into patches that are mixed in one order; right answers on sequences of {length} after learning from "
        f"{plan.bias.length} (chance: 12.5 %).",
        f"- **Best use**: of {len(uses(results))} measured uses the one with the fewest others measurably ahead (their "
        "95 % intervals apart), then the fewest alike, then the largest lead.",
        "",
        f"{len(plan.seeds)} seeds, as many parameters for each, {results.data['card']['processor']}, "
        f"{results.data['began'][:10]}.",
    ]


def _middle(results: Results) -> tuple[int, int]:
    cost = results.plan.cost
    return cost.lengths[len(cost.lengths) // 2 + (len(cost.lengths) > 3)], cost.widths[len(cost.widths) // 2]


def _far(results: Results) -> int:
    """The distance of the gradient that is shown: the last but one, which is nearest to what is recalled."""
    return results.plan.reach.gradients[-2]


def _parallel(results: Results, name: str) -> str:
    speed = f"{summary.rate(results, name).mean:.2g} G mult./s on one"
    if not summary.quiet(results):
        return speed
    return f"{summary.speed_up(results, name):.1f} × on {results.plan.cost.threads[-1]} threads, {speed}"


def _reach(results: Results, name: str) -> str:
    value = summary.gradient(results, name, _far(results)).mean
    return f"{summary.reach(results, name)} tokens, gradient {summary.power(value)}"


def _cost(results: Results, name: str) -> str:
    n, d = _middle(results)
    time = milliseconds(min(summary.times(results, "both", name, n=n, d=d)))
    in_n, in_d = (f(results, name).measured.mean for f in (summary.in_n, summary.in_d))
    return f"n^{in_n:.1f} · d^{in_d:.1f}, {time}"


def _bias(results: Results, name: str) -> str:
    longer = f"longer sequences: {summary.longer(results, name).mean:.0%} right"
    if name not in SEEING:
        return longer
    whole, shifted, mixed = summary.seen(results, name)
    off = f"features {summary.moved(results, name):.0%} off, " if name in GRIDS else ""
    shift = f"shifted: {off}accuracy {summary.points(shifted - whole)}"
    return f"{shift}; patches mixed: {summary.points(mixed - whole)}; {longer}"


SECTIONS: dict[str, Callable[[Results], str]] = {"comparison": table, "findings": findings}


def require_markers(path: Path, tasks: Sequence[str]) -> str:
    """The text of a Markdown file with a place for what is made of a whole plan; said before anything is measured."""
    missing = [task for task in TASKS if task not in tasks]
    if missing:
        raise InputError(f"{path} needs {', '.join(missing)} too", "carry out a whole plan, without --only")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give a Markdown file") from None
    if not any(_between(name).search(text) for name in SECTIONS):
        names = " or ".join(f"<!-- {name} --> … <!-- /{name} -->" for name in SECTIONS)
        raise InputError(f"{path} has no {names}", "put both lines where the table or the findings are to stand")
    return text


def update(results: Results, path: Path) -> None:
    """What stands between the markers of a Markdown file, made anew; a link leads to the results."""
    text = require_markers(path, results.plan.tasks)
    place = os.path.relpath(results.path.resolve(), path.resolve().parent)
    for name, make in SECTIONS.items():
        if _between(name).search(text):
            made = f"{make(results)}\n\n[{results.path.name}]({place}) has all of it, with the machine's card.\n"
            text = _between(name).sub(lambda match, made=made: match[1] + made + match[2], text)  # type: ignore[misc]
    path.write_text(text, encoding="utf-8")


def _between(name: str) -> re.Pattern[str]:
    return re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
