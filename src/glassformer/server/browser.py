"""The application inside a browser: Pyodide runs it in a Web Worker, which is ended if an answer takes too long."""

from __future__ import annotations

import json
from typing import Any

from glassformer.errors import InputError
from glassformer.report.paper import TASKS
from glassformer.server.app import create_app
from glassformer.server.asgi import request


class Inline:
    """Runs tasks in this interpreter, in place of the worker processes of `workers.Pool`."""

    async def run(self, task: str, seconds: float, **arguments: Any) -> bytes:
        try:
            return json.dumps(TASKS[task](**arguments), ensure_ascii=False, allow_nan=False).encode()
        except (MemoryError, RecursionError, OverflowError):
            raise InputError("these numbers grow too large", "use smaller numbers or fewer of them") from None


_app = create_app()
_app.app.state.exact = _app.app.state.quick = Inline()


async def answer(method: str, path: str, body: str | None) -> tuple[int, bytes]:
    """Answer one request of the page; return status and body."""
    made = await request(_app, method, path, body)
    return made.status, made.body
