"""Routes of Lab and Compare: claims tested by experiment, and the measured tables of a comparison."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import Field

from glassformer.errors import InputError
from glassformer.server.body import Body
from glassformer.server.jobs import importing
from glassformer.server.models import Known, TimeLimit

router = APIRouter(tags=["lab"])
LARGEST = 4  # multiples of the default: the page's limit on a parameter, since a claim may need much time and memory


class Trial(Body):
    """Parameters that differ from their defaults, and the seed."""

    parameters: dict[Annotated[str, Field(max_length=40)], float] = Field(default_factory=dict, max_length=20)
    seed: int = Field(default=0, ge=0, le=2**31)


@router.get("/lab")
async def claims(models: Known, request: Request) -> list[dict[str, Any]]:
    """Every claim with its parameters."""
    return await models.run(request, _claims)


def _claims() -> list[dict[str, Any]]:
    with importing:
        from glassformer.lab import claim, numbers
        from glassformer.lab.formula import formula_mathml
        from glassformer.report.paper import drawn

    made = []
    for number in numbers():
        each = claim(number)
        parameters = [
            {"name": name, "default": p.default, "meaning": p.meaning, "least": p.least, "most": _most(p.default)}
            for name, p in each.parameters.items()
        ]
        about = {
            "number": number,
            "name": each.name,
            "statement": each.statement,
            "formula": drawn(formula_mathml(each.formula)),
        }
        made.append(about | {"falsified_by": each.falsified_by, "parameters": parameters})
    return made


def _most(default: float) -> float:
    return LARGEST * default if default else 1.0


@router.post("/lab/{number}")
async def try_claim(
    number: Annotated[int, Path(ge=1, le=999)], body: Trial, models: Known, request: Request
) -> dict[str, Any]:
    """Run one experiment: its verdict, numbers, figure, and counterexample if there is one."""
    remedy = f"choose smaller parameters, or run glassformer lab {number}"
    limit = TimeLimit(models.limits.lab_seconds, "the experiment", remedy)
    return await models.run(request, lambda: _outcome(number, body), limit)


def _outcome(number: int, body: Trial) -> dict[str, Any]:
    with importing:
        from glassformer.lab import claim, run_claim
        from glassformer.lab.page import flatten_result
        from glassformer.report.paper import to_data

    experiment = claim(number)
    for name, value in body.parameters.items():
        if name in experiment.parameters and value > _most(experiment.parameters[name].default):
            most = _most(experiment.parameters[name].default)
            raise InputError(f"{name} is {value:g}", f"the limit of the page is {most:g}; use glassformer lab {number}")
    whole = {name: isinstance(each.default, int) for name, each in experiment.parameters.items()}
    changes: dict[str, Any] = {
        name: int(value) if whole.get(name) and value == int(value) else value
        for name, value in body.parameters.items()
    }
    outcome = run_claim(number, seed=body.seed, **changes)
    data = outcome.result.get("counterexample")
    exercise = None
    if data is not None:
        from glassformer.exercises.exercise import from_data

        exercise = to_data(from_data(data))
    return {
        "number": number,
        "kind": outcome.verdict.kind,
        "verdict": str(outcome.verdict),
        "rule": outcome.verdict.rule,
        "measured": experiment.measured,
        "circumstances": experiment.circumstances,
        "seconds": round(outcome.seconds, 3),
        "command": outcome.command,
        "numbers": [[name, text] for name, text in flatten_result(outcome.result)],
        **_drawn(experiment.figure(outcome.result)),
        "counterexample": exercise,
    }


@router.get("/compare")
async def comparison(models: Known, request: Request) -> dict[str, Any]:
    """The measured tables: of the file given with --results, or of the one that comes with Glassformer."""
    return await models.run(request, lambda: _comparison(request.app.state.settings.results))


@router.get("/compare/figures")
async def curves(models: Known, request: Request) -> list[dict[str, str]]:
    """The curves of the same measurements, which take a few seconds to draw."""
    return await models.run(request, lambda: _curves(request.app.state.settings.results))


@lru_cache(maxsize=1)
def _curves(given: FilePath | None) -> list[dict[str, str]]:
    with importing:
        from glassformer.lab.comparison import latest, load_results
        from glassformer.lab.comparison.figures import figures

    path = given or latest()
    made = figures(load_results(path)) if path is not None else []
    return [{"name": each.name, "caption": each.caption, **_drawn(each.figure)} for each in made]


def _drawn(figure: Any) -> dict[str, str]:
    """A figure as SVG, for a wide screen and for a narrow one."""
    with importing:
        from glassformer.figures import to_bytes
        from glassformer.figures.narrow import narrow

    return {"figure": to_bytes(figure, "svg").decode(), "narrow": to_bytes(narrow(figure), "svg").decode()}


@lru_cache(maxsize=1)
def _comparison(given: FilePath | None) -> dict[str, Any]:
    with importing:
        from glassformer.lab.comparison import latest, load_results
        from glassformer.lab.comparison.tables import findings, tables

    path = given or latest()
    if path is None:
        return {"file": None, "findings": "", "tables": []}
    results = load_results(path)
    return {
        "file": path.name,
        "shipped": given is None,
        "findings": findings(results),
        "tables": [each._asdict() for each in tables(results)],
    }
