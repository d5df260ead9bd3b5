"""Requests to the application without a network, for notebooks, Pyodide and recording a static site."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from glassformer.server.events import WorkStatus


@dataclass(frozen=True)
class Response:
    """Status and body of a response."""

    status: int
    body: bytes


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[Any]:
    """Start the application of `create_app` with its worker processes, and stop them at the end of the block."""
    async with app.app.router.lifespan_context(app.app):
        yield app


async def request(
    app: Any, method: str, path: str, body: str | None = None, status: WorkStatus | None = None
) -> Response:
    """Send one request and return the response. Cancelling the task ends its work, as a disconnecting client does.

    `status` receives the progress of long work.
    """
    sent = [{"type": "http.request", "body": (body or "").encode(), "more_body": False}]
    never = asyncio.Event()
    code = 0
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await never.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal code
        if message["type"] == "http.response.start":
            code = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    try:
        await app(_scope("http", path) | {"method": method, "status": status}, receive, send)
    except Exception:  # a bug, which the application has answered with 500: print it for the developer
        if not code:
            raise
        traceback.print_exc()
    return Response(code, b"".join(parts))


class Socket:
    """A WebSocket of the application, without a network. `on_message` receives every answer."""

    def __init__(self, app: Any, path: str, on_message: Callable[[str], None]) -> None:
        self.app, self.path, self.on_message = app, path, on_message
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.incoming.put_nowait({"type": "websocket.connect"})

    def send(self, message: str | bytes) -> None:
        """Send a message. Call it in the event loop of `run`."""
        key = "text" if isinstance(message, str) else "bytes"
        self.incoming.put_nowait({"type": "websocket.receive", key: message})

    def close(self) -> None:
        """Disconnect. Call it in the event loop of `run`."""
        self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})

    async def run(self) -> None:
        """Answer messages until one side closes."""

        async def answer(message: Any) -> None:
            if message["type"] == "websocket.send":
                self.on_message(message.get("text") or message["bytes"].decode())

        await self.app(_scope("websocket", self.path), self.incoming.get, answer)


async def exchange(app: Any, path: str, messages: list[str | bytes]) -> list[str]:
    """Send messages to a WebSocket, one after each answer except the first, and return the answers until it closes."""
    answers: list[str] = []
    waiting = list(messages)

    def on_message(text: str) -> None:
        answers.append(text)
        give()

    def give() -> None:
        if waiting:
            socket.send(waiting.pop(0))

    socket = Socket(app, path, on_message)
    give()
    give()
    await socket.run()
    return answers


def _scope(kind: str, path: str) -> dict[str, Any]:
    parts = urlsplit(path)
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http" if kind == "http" else "ws",
        "path": "/" + unquote(parts.path).lstrip("/"),
        "raw_path": ("/" + parts.path.lstrip("/")).encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", None),
        "subprotocols": [],
        "state": {},
    }


def problem_of(answer: Response) -> str:
    """Return the error message of a response."""
    value = json.loads(answer.body)
    return f"{value['fact']}: {value['remedy']}"
