"""The static copy: what it needs, its Python side, and the whole of it in a browser, under a path of its own."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import InputError


def test_pyodide_is_never_fetched_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.server.site import write_site

    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "empty"))
    with pytest.raises(InputError, match="glassformer data fetch pyodide"):
        write_site(tmp_path / "site")
    (tmp_path / "empty" / "pyodide").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "file").touch()
    with pytest.raises(InputError, match="is not empty"):
        write_site(tmp_path / "site")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "api/exercises/one-query", None, 200),
        ("GET", "api/exercises/nothing", None, 422),
        ("POST", "api/paper", {"exercise": {"Q": [[1]]}}, 422),
        ("POST", "api/paper", {"exercise": {}, "other": 1}, 422),
        ("GET", "api/nothing", None, 404),
    ],
)
def test_the_engine_of_the_browser_answers_as_the_server_does(
    method: str, path: str, body: Any, status: int, server: Any
) -> None:
    from glassformer.server.browser import answer

    text = None if body is None else json.dumps(body)
    with ThreadPoolExecutor(1) as thread:  # playwright keeps an event loop in this one
        made = thread.submit(lambda: asyncio.run(answer(method, path, text))).result()
    assert (made[0], json.loads(made[1])) == server.ask(method, path, body)
    assert made[0] == status


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site below two folders, with one model."""
    from glassformer.data.sources import fetch
    from glassformer.server.site import write_site

    fetch("pyodide")
    root = tmp_path_factory.mktemp("web")
    made = write_site(root / "some" / "where", models=["writer"], lab=False)
    assert made.refused == []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=root)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/some/where/"
        running.shutdown()


@pytest.mark.slow
def test_every_room_works_without_a_server(site: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(120_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith((site, "data:", "blob:")) else wrong.append(sent.url))
    page.goto(site)
    page.get_by_role("heading", name="What does “it” look at?").wait_for()
    page.get_by_label("k of sat, coordinate 1").fill("3")
    page.locator(".attend [data-at='A.4.3']", has_text="64.4 %").wait_for()
    page.goto(f"{site}#/check/one-query")
    page.get_by_label("S row 1 column 2").fill("3")
    page.locator(".answer.wrong").wait_for()
    page.get_by_role("button", name="New exercise").click()
    page.get_by_role("heading", name="One query").wait_for(state="detached")
    page.goto(f"{site}#/model/writer")
    page.locator(".numbers .attend tbody tr").first.wait_for()
    page.get_by_role("button", name="Switch this head off").click()
    page.get_by_text("difference").wait_for()
    page.get_by_role("button", name="Put this row on paper").click()
    page.get_by_role("heading", name="look at in writer").wait_for()
    page.goto(f"{site}#/live")
    page.get_by_role("button", name="Play").click()
    page.get_by_text(", complete").wait_for()
    assert page.locator(".transcript").inner_text().strip()
    page.goto(f"{site}#/compare")
    page.locator(".details figure img").wait_for()
    page.goto(f"{site}#/lab")
    page.get_by_text("this was not recorded").wait_for()
    context.close()
    assert not wrong, wrong


def test_an_interrupted_recording_is_continued(tmp_path: Path) -> None:
    from glassformer.server.site.recording import ResponseBundles

    said: list[str] = []
    parts = tmp_path / "recorded", tmp_path / "unfinished.json"
    first = ResponseBundles(*parts, "1", said.append)
    assert first.begin("model writer")
    first.keep("writer", "GET row", "QQ==")
    first.end("model writer")
    first.keep("lab", "GET claim", "Qg==")  # a part that was not completed is recorded again
    again = ResponseBundles(*parts, "1", said.append)
    assert not again.begin("model writer")
    assert again.bundles == {"writer": {"GET row": "QQ=="}}
    assert said == ["model writer", "model writer: recorded before"]
    with pytest.raises(InputError, match="started by another version of Glassformer: choose a new folder"):
        ResponseBundles(*parts, "2", said.append)
