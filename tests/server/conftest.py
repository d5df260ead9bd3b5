"""A running server, and a real browser to look at it."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Repeat a test of the page once if it waited in vain: a busy machine may take longer than its timeouts."""
    for item in items:
        if "opened" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "still not true"]))


@dataclass(frozen=True)
class Server:
    """The address of a server that runs in a process of its own."""

    address: str
    process: subprocess.Popen[str]

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of one request."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers or {}, method=method)
        if data is not None and not request.has_header("Content-type"):
            request.add_header("Content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, _read(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read())

    def post(self, path: str, /, **body: Any) -> Any:
        status, value = self.ask("POST", path, body)
        assert status == 200, value
        return value


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def start(*options: str) -> Server:
    """`glassformer serve` on a free port."""
    command = [sys.executable, "-m", "glassformer.cli.main", "serve", "--port", "0", "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, line + (process.stdout.read() if process.poll() is not None else "")
    return Server(found.group(), process)


def stop(server: Server) -> int:
    server.process.terminate()
    code = server.process.wait(20)
    assert server.process.stdout is not None
    server.process.stdout.close()
    return code


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    running = start()
    yield running
    stop(running)


@pytest.fixture(params=[
    pytest.param({}, id="1280-light"),
    pytest.param({"width": 360, "height": 740, "dark": True}, id="360-dark", marks=pytest.mark.slow),
])  # fmt: skip
def screen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of `opened`: a desktop in light colours, and a phone in dark ones."""
    chosen: dict[str, Any] = request.param
    return chosen


DROP = """([selector, name, data]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  document.querySelector(selector).dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
}"""


def drop(page: Any, selector: str, name: str, data: bytes) -> None:
    """Drop a file on an element, as from a file manager."""
    page.locator(selector).wait_for()
    page.evaluate(DROP, [selector, name, base64.b64encode(data).decode()])


def clip(server: Server) -> bytes:
    """The first bundled recording, "...to reset your speaking volume to the default level.", as FLAC."""
    first = server.ask("GET", "api/clips")[1][0]
    assert "volume" in first["text"]
    with urllib.request.urlopen(f"{server.address}api/clips/{first['name']}", timeout=60) as response:
        return bytes(response.read())


def until(page: Any, expression: str, seconds: float = 20) -> None:
    """Wait until a JavaScript expression is true; the page's own policy forbids playwright's wait_for_function."""
    for _ in range(int(seconds / 0.05)):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"still not true: {expression}")


@dataclass
class Opened:
    """A page, and everything that went wrong in it."""

    page: Any
    errors: list[str]
    elsewhere: list[str]


@pytest.fixture
def opened(browser: Any, server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """`opened("#/paper", width=360, dark=True)`: the page there; at the end nothing may have gone wrong in it."""
    contexts: list[Any] = []
    everything: list[Opened] = []

    def show(hash_: str = "", width: int = 1280, height: int = 860, dark: bool = False, **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        made = Opened(page, [], [])
        everything.append(made)
        page.on("pageerror", lambda error: made.errors.append(str(error)))
        page.on("console", lambda said: made.errors.append(said.text) if said.type == "error" else None)
        page.on(
            "request",
            lambda sent: (
                made.elsewhere.append(sent.url) if not sent.url.startswith((server.address, "data:", "blob:")) else None
            ),
        )
        page.goto(server.address + hash_)
        return page

    yield show
    expected = [mark.args[0] for mark in request.node.iter_markers("console_error")]
    for made in everything:
        unexpected = [error for error in made.errors if not any(part in error for part in expected)]
        assert not unexpected, unexpected
        assert not made.elsewhere, made.elsewhere
    for context in contexts:
        context.close()
