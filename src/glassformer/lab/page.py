"""A standalone page of outcomes: each statement with its figure, verdict, numbers, and how to repeat it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from glassformer.figures import save
from glassformer.lab.formula import mathml
from glassformer.lab.running import Outcome
from glassformer.runtime import card
from glassformer.worked.render.page import STYLE, page

_STYLE = (
    STYLE
    + """
.verdict { font-weight: 600 }
.holds { color: #1a7f4b } .fails { color: #b3261e } .when { color: #9a6700 }
img { max-width: 100%; background: white }
table { border-collapse: collapse } td, th { padding: .15rem .6rem; text-align: left; vertical-align: top }
pre { white-space: pre-wrap; padding: .6rem; background: #8881 }
"""
)


def report(outcomes: Sequence[Outcome]) -> str:
    """The page: no script, nothing fetched, every figure inside it."""
    body = [_contents(outcomes), *(_section(outcome) for outcome in outcomes), _card()]
    return page("What is taught about attention, measured", "\n".join(body), _STYLE)


def _verdict(outcome: Outcome) -> str:
    kind = outcome.verdict.kind
    return f'<span class="verdict {kind.split()[-1]}">{kind}</span>'


def _contents(outcomes: Sequence[Outcome]) -> str:
    rows = (
        f'<tr><td><a href="#c{each.experiment.number}">{each.experiment.number}</a></td>'
        f"<td>{escape(each.experiment.name)}</td><td>{_verdict(each)}</td></tr>"
        for each in outcomes
    )
    head = "<thead><tr><th>claim</th><th></th><th>verdict</th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _section(outcome: Outcome) -> str:
    experiment, verdict = outcome.experiment, outcome.verdict
    picture = base64.b64encode(save(experiment.figure(outcome.result))).decode("ascii")
    parts = [
        f'<section id="c{experiment.number}"><h2>{experiment.number}. {escape(experiment.name)}</h2>',
        f"<p>{escape(experiment.statement)}</p>",
        mathml(experiment.formula),
        f"<p>{_verdict(outcome)}: {escape(verdict.condition)}.</p>",
        f'<img alt="{escape(experiment.measured)}" src="data:image/png;base64,{picture}">',
        f"<p>Measured: {escape(experiment.measured)}</p>",
        f"<p>Rule: {escape(verdict.rule)}</p>",
    ]
    if experiment.circumstances:
        parts.append(f"<p>Circumstances: {escape(experiment.circumstances)}</p>")
    parts.append(_numbers(outcome))
    example = experiment.counterexample(outcome.result)
    if example is not None:
        parts.append(f"<h3>Counterexample, for <code>glassformer solve -</code></h3><pre>{escape(example)}</pre>")
    ways = "".join(f"<pre>{escape(way)}</pre>" for way in (outcome.command, outcome.code))
    parts.append(f"<h3>To repeat it</h3>{ways}</section>")
    return "\n".join(parts)


def _numbers(outcome: Outcome) -> str:
    settings = {**outcome.parameters, "seed": outcome.seed}
    known = {name: each.meaning for name, each in outcome.experiment.parameters.items()}
    rows = [(f"{name} ({known[name]})" if name in known else name, str(value)) for name, value in settings.items()]
    rows += flat(outcome.result)
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<details><summary>Numbers ({outcome.seconds:.1f} s)</summary><table>{cells}</table></details>"


def flat(result: dict[str, Any], most: int = 12) -> Iterator[tuple[str, str]]:
    """The result as names and short texts; a long list shows its beginning."""
    for name, value in result.items():
        if name == "counterexample":
            continue
        if isinstance(value, dict):
            yield from ((f"{name}: {key}", _short(each, most)) for key, each in value.items())
        else:
            yield name, _short(value, most)


def _short(value: Any, most: int) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        shown = ", ".join(_short(each, most) for each in value[:most])
        return f"[{shown}{', …' if len(value) > most else ''}]"
    return str(value)


def _card() -> str:
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in card().items())
    return f"<section><h2>The machine</h2><table>{rows}</table></section>"
