"""The widget: the workbench's page in a notebook's output, answered by the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from glassformer.server.app import STATIC
from glassformer.server.asgi import Response
from glassformer.server.events import EVERY, WorkStatus
from glassformer.widget.engine import Connection, engine

HERE = Path(__file__).parent


@cache
def files() -> dict[str, str]:
    """The sources of the page by name, and `notebook.js`, which starts it."""
    found = [*STATIC.glob("*.js"), *STATIC.glob("vendor/*.js"), *(STATIC / n for n in ("style.css", "icon.svg"))]
    made = {path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8") for path in found}
    return made | {"notebook.js": (HERE / "notebook.js").read_text(encoding="utf-8")}


class SentStatus(WorkStatus):
    """Progress of long work, forwarded at most a few times a second."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send, self._sent = send, 0.0

    def update(self, what: str, done: int, total: int) -> None:
        known = what == self.what
        super().update(what, done, total)
        if not known or time.monotonic() - self._sent > EVERY:
            self._sent = time.monotonic()
            self._send(asdict(self))


class Workbench(anywidget.AnyWidget):
    """The page at `address`, such as "#/paper/four-tokens". `static` is the id of the element that it replaces.

    Only its address is part of its state: the sources are sent when it is opened, so that a saved notebook stays small
    and, without a kernel, shows only the static element.
    """

    _esm = HERE / "widget.js"
    address = traitlets.Unicode().tag(sync=True)
    static = traitlets.Unicode().tag(sync=True)

    def __init__(self, address: str, static: str = "") -> None:
        super().__init__(address=address, static=static)
        self._running: dict[str, Future[Response]] = {}
        self._sockets: dict[str, Connection] = {}
        self.on_msg(self._received)

    def _received(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        match message:
            case {"kind": "open", "view": view}:
                self.send({"kind": "page", "view": view, "files": files()})
            case {"kind": "request", "view": view, "id": key, "method": method, "path": path}:
                send = lambda now: self.send({"kind": "progress", "view": view, "id": key, **now})
                status = SentStatus(send) if message.get("progress") else None
                future = engine().submit(method, path, message.get("body"), status)
                self._running[key] = future
                future.add_done_callback(lambda done: self._answer(view, key, done))
            case {"kind": "abort", "id": key} if key in self._running:
                self._running[key].cancel()
            case {"kind": "connect", "view": view, "id": key, "path": path}:
                self._sockets[key] = engine().connect(
                    path, lambda text: self.send({"kind": "message", "view": view, "id": key, "text": text})
                )
            case {"kind": "message", "id": key} if key in self._sockets:
                self._sockets[key].send(bytes(buffers[0]) if buffers else message["text"])
            case {"kind": "close", "id": key} if key in self._sockets:
                self._sockets.pop(key).close()

    def _answer(self, view: str, key: str, done: Future[Response]) -> None:
        self._running.pop(key, None)
        try:
            answer = done.result()
        except CancelledError:
            return
        self.send({"kind": "answer", "view": view, "id": key, "status": answer.status}, [answer.body])
