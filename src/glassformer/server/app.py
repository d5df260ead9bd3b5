"""The application: one router per room, static files, and one format for all errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from glassformer import __version__
from glassformer.errors import GlassError
from glassformer.server.error_response import error_response
from glassformer.server.events import Events
from glassformer.server.safety import Safety
from glassformer.server.settings import Settings
from glassformer.server.static_files import StaticFiles
from glassformer.server.workers import Busy, Crashed, Pool

STATIC = Path(__file__).parent / "static"


class Problem(BaseModel):
    """Why a request was rejected, and what to do."""

    fact: str
    remedy: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        400: "The request cannot be read.",
        401: "The token is missing.",
        403: "The Host or the Origin is not this server.",
        404: "Not found.",
        408: "The request was sent too slowly.",
        413: "The request is too large.",
        422: "The input is invalid or exceeds a limit.",
        429: "Too many requests are waiting.",
    }.items()
}


def create_app(settings: Settings | None = None) -> Any:
    """Create the ASGI application of the workbench."""
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        exact, quick = Pool(settings.workers, settings.limits.waiting), Pool(1, settings.limits.waiting)
        app.state.exact, app.state.quick = exact, quick
        warming = asyncio.ensure_future(_warm(quick, exact))
        yield
        warming.cancel()
        with contextlib.suppress(asyncio.CancelledError, Crashed):
            await warming
        await asyncio.gather(quick.close(), exact.close())
        app.state.models.close()

    app = FastAPI(
        title="Glassformer workbench",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        responses=PROBLEMS,
    )
    app.state.settings = settings
    _errors(app)
    _add_rooms(app)
    app.mount("/", StaticFiles(STATIC), name="static")
    app.add_middleware(Events)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=1)
    return Safety(app, settings)


def _add_rooms(app: FastAPI) -> None:
    from glassformer.server import exercises, lab, live, models

    app.include_router(exercises.router, prefix="/api")
    app.include_router(models.router, prefix="/api")
    app.include_router(lab.router, prefix="/api")
    app.include_router(live.router, prefix="/api")
    app.state.models = models.Models(app.state.settings)


async def _warm(*pools: Pool) -> None:
    """Start the workers one after the other, so that the first one is ready soon."""
    for pool in pools:
        for worker in pool.workers:
            await worker.start()


def _describe_error(error: dict[str, Any]) -> tuple[str, str]:
    """Describe a validation error of a request: what is wrong with a field, and what to do."""
    names: list[str] = []
    for part in error["loc"]:
        if isinstance(part, int) and names:
            names[-1] = f"{names[-1].removesuffix('s')} {part + 1}"
        elif part not in ("body", "query", "path") or names:
            names.append(str(part)[:80])
    name = " of ".join(reversed(names)) or "the request"
    most = error.get("ctx", {}).get("max_length", 0)
    match error["type"]:
        case "string_too_long":
            return f"{name} has more than {most:,} characters", "give a shorter one"
        case "too_long":
            return f"{name} has more than {most:,} entries", "give fewer"
        case "missing":
            return f"{name} is missing", "give it"
        case "extra_forbidden":
            return f"there is no field {name}", "leave it out"
    return f"{name} cannot be used", error["msg"].replace("Input should", "it should")


def _errors(app: FastAPI) -> None:
    def problem(status: int, fact: str, remedy: str) -> JSONResponse:
        return JSONResponse({"fact": fact, "remedy": remedy}, status_code=status)

    @app.exception_handler(GlassError)
    async def _glass_error(request: Request, error: GlassError) -> JSONResponse:
        return problem(422, error.fact, error.remedy)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return problem(400 if first["type"] == "json_invalid" else 422, *_describe_error(first))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        remedies = {400: "send JSON", 404: "see /api.html for the available routes", 405: "use another method"}
        path, accept = request.url.path, request.headers.get("accept", "")
        kind, body = error_response(path, accept, str(error.detail), remedies.get(error.status_code, "try again"))
        return Response(body, error.status_code, error.headers, kind)

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "the workbench had an internal error", "please report it, with the steps that led to it")

    @app.exception_handler(Busy)
    async def _busy(request: Request, error: Busy) -> JSONResponse:
        return problem(429, f"{error}, which is the limit", "try again in a moment")
