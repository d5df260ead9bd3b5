"""A standalone HTML page of outcomes, each with statement, verdict, figure, rule, numbers and how to reproduce it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from glassformer.figures import to_bytes
from glassformer.lab.experiment import Outcome
from glassformer.lab.formula import formula_mathml
from glassformer.runtime import card
from glassformer.templates import render


def claims_page(outcomes: Sequence[Outcome]) -> str:
    """Render the outcomes as one page without scripts or external files."""
    return render("lab.html", sections=[_section(outcome) for outcome in outcomes], card=card())


def _section(outcome: Outcome) -> dict[str, Any]:
    experiment = outcome.experiment
    meanings = {name: each.meaning for name, each in experiment.parameters.items()}
    settings = [(f"{name} ({meanings[name]})", str(value)) for name, value in outcome.parameters.items()]
    return {
        "outcome": outcome,
        "experiment": experiment,
        "formula": Markup(formula_mathml(experiment.formula)),
        "png": base64.b64encode(to_bytes(experiment.figure(outcome.result))).decode("ascii"),
        "numbers": [*settings, ("seed", str(outcome.seed)), *flatten_result(outcome.result)],
        "counterexample": experiment.counterexample(outcome.result),
    }


def flatten_result(result: dict[str, Any], most: int = 12) -> Iterator[tuple[str, str]]:
    """Yield the result as names and short texts; long lists are truncated to their first elements."""
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
