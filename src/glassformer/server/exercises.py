"""Routes of Paper, Check and practice: views of `report.paper`, computed in worker processes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from glassformer.errors import InputError
from glassformer.server.app import unless_gone

router = APIRouter(tags=["exercises"])

Symbol = Annotated[str, Field(pattern=r"^[A-Za-z]{1,8}\d{0,2}$")]
Cell = Annotated[str, Field(max_length=200)]


class Body(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class Solve(Body):
    exercise: dict[str, Any]
    exact: bool = True


class At(Body):
    exercise: dict[str, Any]
    address: str = Field(max_length=20)


class Export(Body):
    exercise: dict[str, Any]
    format: Literal["markdown", "latex", "html", "yaml"]


class Text(Body):
    text: str = Field(max_length=200_000)


class Sheet(Body):
    exercise: dict[str, Any]


class Grade(Body):
    exercise: dict[str, Any]
    answers: dict[Symbol, list[list[Cell]]] | None = None
    text: str | None = Field(default=None, max_length=200_000)


class Hint(Body):
    exercise: dict[str, Any]
    symbol: Symbol
    level: int = Field(ge=1, le=3)
    row: int = Field(default=1, ge=1, le=64)
    column: int = Field(default=1, ge=1, le=64)


class Practice(Body):
    topic: str = Field(default="attention", max_length=20)
    level: str = Field(default="medium", max_length=20)
    tokens: int = Field(default=3, ge=1, le=8)
    width: int = Field(default=2, ge=1, le=8)
    heads: int = Field(default=1, ge=1, le=4)
    seed: int = Field(default=0, ge=0, le=2**31)


class Work:
    """Runs tasks of one request in the worker processes."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.limits = request.app.state.settings.limits

    async def exact(self, task: str, **arguments: Any) -> Any:
        return await self._run(self.request.app.state.exact, task, self.limits.exact_seconds, arguments)

    async def quick(self, task: str, **arguments: Any) -> Any:
        return await self._run(self.request.app.state.quick, task, self.limits.decimals_seconds, arguments)

    async def _run(self, pool: Any, task: str, seconds: float, arguments: dict[str, Any]) -> Any:
        if len(json.dumps(arguments)) > self.limits.exercise:
            raise InputError(
                "the exercise or the document is too large", f"give at most {self.limits.exercise:,} bytes"
            )
        return await unless_gone(self.request, pool.run(task, seconds, **arguments))


async def _work(request: Request) -> Work:
    return Work(request)


Worked = Annotated[Work, Depends(_work)]


@router.get("/exercises")
async def list_exercises(work: Worked) -> list[dict[str, Any]]:
    """The embedded exercises: name, title and kind."""
    return list(await work.quick("exercises"))


@router.get("/exercises/{name}")
async def get_exercise(name: Annotated[str, Path(max_length=40)], work: Worked) -> dict[str, Any]:
    """An embedded exercise."""
    return dict(await work.quick("embedded", key=name))


@router.post("/paper")
async def solve(body: Solve, work: Worked) -> dict[str, Any]:
    """Every step of an exercise: decimals at once, or exact values."""
    run = work.exact if body.exact else work.quick
    return dict(await run("view", data=body.exercise, exact=body.exact))


@router.post("/paper/cell")
async def explain(body: At, work: Worked) -> dict[str, Any]:
    """The operands of one number, and its sum written out."""
    return dict(await work.exact("cell", data=body.exercise, address=body.address))


@router.post("/paper/export")
async def export(body: Export, work: Worked) -> dict[str, str]:
    """The solution as Markdown, LaTeX or HTML, or the exercise as YAML."""
    return {"text": str(await work.exact("export", data=body.exercise, form=body.format))}


@router.post("/paper/parse")
async def parse(body: Text, work: Worked) -> dict[str, Any]:
    """An exercise from its YAML or JSON text."""
    return dict(await work.quick("parse", text=body.text))


@router.post("/check/sheet")
async def sheet(body: Sheet, work: Worked) -> dict[str, Any]:
    """The steps a learner is asked for, with their sizes."""
    return dict(await work.exact("sheet", data=body.exercise))


@router.post("/check/grade")
async def grade(body: Grade, work: Worked) -> dict[str, Any]:
    """A learner's working graded: cell by cell, with the mistakes named."""
    return dict(await work.exact("grade", data=body.exercise, answers=body.answers, text=body.text))


@router.post("/check/hint")
async def hint(body: Hint, work: Worked) -> dict[str, Any]:
    """Help with one step: its formula, the operands of a cell, the cell itself."""
    arguments = {"symbol": body.symbol, "level": body.level, "row": body.row, "column": body.column}
    return dict(await work.exact("hint", data=body.exercise, **arguments))


@router.get("/practice")
async def practice_options(work: Worked) -> dict[str, Any]:
    """Topics and levels of practice sheets."""
    return dict(await work.quick("practice_options"))


@router.post("/practice")
async def practice(body: Practice, work: Worked) -> dict[str, Any]:
    """A fresh exercise from a seed."""
    return dict(await work.exact("practice", **body.model_dump()))
