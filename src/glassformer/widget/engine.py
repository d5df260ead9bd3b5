"""The application of the workbench in its own thread, so that a notebook's kernel can answer the page."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

from glassformer.server.app import create_app
from glassformer.server.asgi import Response, Socket, request, running
from glassformer.server.events import WorkStatus
from glassformer.server.settings import Settings


@dataclass(frozen=True)
class Connection:
    """An open WebSocket, to be used from any thread."""

    loop: asyncio.AbstractEventLoop
    socket: Socket

    def send(self, message: str | bytes) -> None:
        self.loop.call_soon_threadsafe(self.socket.send, message)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.socket.close)


class LocalServer:
    """Answers requests of widgets, with the routes, limits and worker processes of the server, without a port."""

    def __init__(self) -> None:
        self.app = create_app(Settings(workers=1))
        self.loop = asyncio.new_event_loop()
        self.end: asyncio.Event | None = None
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), name="glassformer", daemon=True)
        self.thread.start()
        started.wait()
        atexit.register(self.close)

    @property
    def models(self) -> Any:
        """The models and runs that can be opened (`server.models.Models`)."""
        return self.app.app.state.models

    def submit(self, method: str, path: str, body: str | None, status: WorkStatus | None = None) -> Future[Response]:
        """Start a request; cancelling the future frees its work. `status` receives the progress of long work."""
        return asyncio.run_coroutine_threadsafe(request(self.app, method, path, body, status), self.loop)

    def connect(self, path: str, on_message: Callable[[str], None]) -> Connection:
        """Open a WebSocket; `on_message` receives its answers, in the server's thread."""
        socket = Socket(self.app, path, on_message)
        asyncio.run_coroutine_threadsafe(socket.run(), self.loop)
        return Connection(self.loop, socket)

    def _run(self, started: threading.Event) -> None:
        self.loop.run_until_complete(self._serve(started))
        self.loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self.end = asyncio.Event()
        async with running(self.app):
            started.set()
            await self.end.wait()

    def close(self) -> None:
        """End the worker processes and the thread."""
        if self.thread.is_alive() and self.end is not None:
            self.loop.call_soon_threadsafe(self.end.set)
            self.thread.join(10)
        atexit.unregister(self.close)


@cache
def engine() -> LocalServer:
    """The server of this process, started by the first request of a widget."""
    return LocalServer()
