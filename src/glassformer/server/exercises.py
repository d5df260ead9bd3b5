"""Routes of Paper, Check and practice: views of `report.paper`, computed in worker processes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from glassformer.errors import InputError
from glassformer.server.body import Body
from glassformer.server.disconnect import cancel_on_disconnect
from glassformer.server.workers import Pool

router = APIRouter(tags=["exercises"])

Symbol = Annotated[str, Field(pattern=r"^[A-Za-z]{1,8}\d{0,2}$")]
Cell = Annotated[str, Field(max_length=200)]


EXAMPLE = {"Q": [[1, 0]], "K": [[0, 0], [2, 1]], "V": [[1, 0], [0, "1/2"]], "scale": 1}
ExerciseData = Annotated[dict[str, Any], Field(examples=[EXAMPLE], description="An exercise, as in its YAML file.")]


class Solve(Body):
    exercise: ExerciseData
    exact: bool = True
    explain: list[Symbol] | None = Field(
        default=None,
        max_length=40,
        description="Steps whose cells come with their operands and sums, by symbol; by default all.",
    )


class At(Body):
    exercise: ExerciseData
    address: str = Field(max_length=20)
    exact: bool = True


class Export(Body):
    exercise: ExerciseData
    format: Literal["markdown", "latex", "html", "yaml"]


class ExerciseText(Body):
    text: str = Field(max_length=200_000)


class Sheet(Body):
    exercise: ExerciseData


class GradeRequest(Body):
    exercise: ExerciseData
    answers: dict[Symbol, list[list[Cell]]] | None = None
    text: str | None = Field(default=None, max_length=200_000)
    file: str | None = Field(default=None, description="A document in base64: text, a notebook, PDF, DOCX or XLSX.")
    name: str = Field(default="", max_length=200, description="The file name; its extension determines the format.")


class Hint(Body):
    exercise: ExerciseData
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

    async def exact(self, task: str, most: int | None = None, **arguments: Any) -> Response:
        return await self._run(self.request.app.state.exact, task, self.limits.exact_seconds, arguments, most)

    async def quick(self, task: str, **arguments: Any) -> Response:
        return await self._run(self.request.app.state.quick, task, self.limits.decimals_seconds, arguments)

    async def _run(
        self, pool: Pool, task: str, seconds: float, arguments: dict[str, Any], most: int | None = None
    ) -> Response:
        most = most or self.limits.exercise
        if len(await self.request.body()) > most:
            raise InputError("the exercise or the document is too large", f"give at most {most:,} bytes")
        result = await cancel_on_disconnect(self.request, pool.run(task, seconds, **arguments))
        return Response(result, media_type="application/json")


async def _work(request: Request) -> Work:
    return Work(request)


Worked = Annotated[Work, Depends(_work)]
Data = dict[str, Any]


@router.get("/exercises", response_model=list[Data])
async def list_exercises(work: Worked) -> Response:
    """The embedded exercises: name, title and kind."""
    return await work.quick("exercises")


@router.get("/exercises/{name}", response_model=Data)
async def get_exercise(name: Annotated[str, Path(max_length=40)], work: Worked) -> Response:
    """An embedded exercise."""
    return await work.quick("embedded", key=name)


@router.post("/paper", response_model=Data)
async def solve(body: Solve, work: Worked) -> Response:
    """Every step of an exercise: decimals at once, or exact values."""
    run = work.exact if body.exact else work.quick
    return await run("view", data=body.exercise, exact=body.exact, explain=body.explain)


@router.post("/paper/cell", response_model=Data)
async def explain(body: At, work: Worked) -> Response:
    """The operands of one number, and its sum written out."""
    run = work.exact if body.exact else work.quick
    return await run("cell", data=body.exercise, address=body.address, exact=body.exact)


@router.post("/paper/export", response_model=dict[str, str])
async def export(body: Export, work: Worked) -> Response:
    """The solution as Markdown, LaTeX or HTML, or the exercise as YAML."""
    made = await work.exact("export", data=body.exercise, form=body.format)
    return Response(b'{"text":' + bytes(made.body) + b"}", media_type="application/json")


@router.post("/paper/parse", response_model=Data)
async def parse(body: ExerciseText, work: Worked) -> Response:
    """An exercise from its YAML or JSON text."""
    return await work.quick("parse", text=body.text)


@router.post("/check/sheet", response_model=Data)
async def sheet(body: Sheet, work: Worked) -> Response:
    """The steps that a learner has to compute, with their sizes."""
    return await work.exact("sheet", data=body.exercise)


@router.post("/check/grade", response_model=Data)
async def grade(body: GradeRequest, work: Worked) -> Response:
    """Grade a learner's working cell by cell, and name the mistakes."""
    most = work.limits.document if body.file is not None else None
    given: dict[str, Any] = {"answers": body.answers, "text": body.text, "file": body.file, "name": body.name}
    return await work.exact("grade", most, data=body.exercise, **given)


@router.post("/check/hint", response_model=Data)
async def hint(body: Hint, work: Worked) -> Response:
    """Help with one step: its formula, the operands of a cell, the cell itself."""
    arguments: dict[str, Any] = {"symbol": body.symbol, "level": body.level, "row": body.row, "column": body.column}
    return await work.exact("hint", data=body.exercise, **arguments)


@router.get("/practice", response_model=Data)
async def practice_options(work: Worked) -> Response:
    """Topics and levels of practice sheets."""
    return await work.quick("practice_options")


@router.post("/practice", response_model=Data)
async def practice(body: Practice, work: Worked) -> Response:
    """A fresh exercise from a seed."""
    return await work.exact("practice", **body.model_dump())
