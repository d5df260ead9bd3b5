"""Requests to the application without a network: from a notebook, inside a browser, and to record a static site."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: bytes


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[Any]:
    """Start the application of `create_app`, with its worker processes, and end it."""
    async with app.app.router.lifespan_context(app.app):
        yield app


async def request(app: Any, method: str, path: str, body: str | None = None) -> Answer:
    """One request and its answer. A request whose task is cancelled frees its work, as a client that goes away does."""
    sent = [{"type": "http.request", "body": (body or "").encode(), "more_body": False}]
    never = asyncio.Event()
    status = 0
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await never.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    try:
        await app(_scope("http", path) | {"method": method}, receive, send)
    except Exception:  # a mistake of ours, which the application has answered with 500: told to whoever runs it
        if not status:
            raise
        traceback.print_exc()
    return Answer(status, b"".join(parts))


async def exchange(app: Any, path: str, messages: list[str | bytes]) -> list[str]:
    """Send messages to a WebSocket, one after each answer but the first, and return the answers until it closes."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: list[str] = []
    waiting = list(messages)
    incoming.put_nowait({"type": "websocket.connect"})

    def give() -> None:
        if not waiting:
            return
        message = waiting.pop(0)
        key = "text" if isinstance(message, str) else "bytes"
        incoming.put_nowait({"type": "websocket.receive", key: message})

    async def send(message: Any) -> None:
        if message["type"] == "websocket.accept":
            give()
            give()
        elif message["type"] == "websocket.send":
            heard.append(message.get("text") or message["bytes"].decode())
            give()

    await app(_scope("websocket", path), incoming.get, send)
    return heard


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


def problem_of(answer: Answer) -> str:
    """The sentence of a refusal."""
    value = json.loads(answer.body)
    return f"{value['fact']}: {value['remedy']}"
