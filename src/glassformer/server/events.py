"""Responses as server-sent events, for clients that accept text/event-stream: first progress, then the answer.

    event: progress
    data: {"what": "training step", "done": 120, "total": 200}

    event: answer
    data: {"status": 200, "body": {…}}

This is transparent to the routes: work that supports it writes its latest report to the `WorkStatus` of the request.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, replace

from glassformer.server.safety import App, Message, Receive, Send

KIND = b"text/event-stream"
EVERY = 0.2  # minimum seconds between two events


@dataclass
class WorkStatus:
    """The latest report on the work of one request; `total` is 0 if unknown."""

    what: str = ""
    done: int = 0
    total: int = 0

    def update(self, what: str, done: int, total: int) -> None:
        """Receive a report of `glassformer.progress`, from any thread."""
        self.what, self.done, self.total = what, done, total


class Events:
    """ASGI middleware around the routes: their JSON response becomes the last event."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (b"accept", KIND) not in scope["headers"]:
            await self.app(scope, receive, send)
            return
        status = 500
        body = b""

        async def keep(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        async def event(name: str, data: str, more: bool) -> None:
            text = f"event: {name}\ndata: {data}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

        now, sent = WorkStatus(), WorkStatus()
        headers = [(b"content-type", KIND), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        work = asyncio.ensure_future(self.app({**scope, "status": now}, receive, keep))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=EVERY)
                if now != sent:
                    sent = replace(now)
                    await event("progress", json.dumps(asdict(sent), ensure_ascii=False), True)
            if work.exception() is not None:  # a bug; the status of the response has been sent already
                body = b'{"fact": "the workbench had an internal error", "remedy": "please report it"}'
            answer = json.dumps(json.loads(body), ensure_ascii=False)  # on one line
            await event("answer", f'{{"status": {status}, "body": {answer}}}', False)
            work.result()
        finally:
            work.cancel()
