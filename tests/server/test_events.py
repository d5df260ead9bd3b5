"""Long work as server-sent events: its progress, then its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from glassformer.progress import listening, report, tracked
from glassformer.server.events import Events


def test_reports_reach_the_listener_of_their_context() -> None:
    heard: list[tuple[str, int, int]] = []
    report("nobody listens")
    with listening(lambda *now: heard.append(now)):
        assert list(tracked("ab", "letters")) == ["a", "b"]
    report("nobody listens any more")
    assert heard == [("letters", 0, 2), ("letters", 1, 2)]


def events_of(route: Callable[..., Any], accept: bytes) -> list[dict[str, Any]]:
    """Messages of one request to a route behind the middleware, in an event loop of their own."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"accept", accept)]}
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, Events(route)(scope, None, send)).result()  # type: ignore[arg-type]
    return sent


async def answer(scope: Any, receive: Any, send: Any) -> None:
    for done in range(3):
        if "status" in scope:
            scope["status"].update("step", done, 3)
        await asyncio.sleep(0.25)
    await send({"type": "http.response.start", "status": 422, "headers": []})
    await send({"type": "http.response.body", "body": b'{"fact":"q\\nr"}'})


def test_progress_comes_before_the_answer() -> None:
    sent = events_of(answer, b"text/event-stream")
    events = b"".join(message.get("body", b"") for message in sent).decode().strip().split("\n\n")
    read = [event.split("\n") for event in events]
    assert [line[0] for line in read] == ["event: progress"] * 3 + ["event: answer"]
    data = [json.loads(line[1].removeprefix("data: ")) for line in read]
    assert data[1] == {"what": "step", "done": 1, "total": 3}
    assert data[3] == {"status": 422, "body": {"fact": "q\nr"}}
    assert [message.get("more_body", True) for message in sent][-1] is False
    plain = events_of(answer, b"application/json")
    assert [message.get("status") for message in plain] == [422, None]


def test_a_bug_is_answered_and_raised() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        events_of(broken, b"text/event-stream")


@pytest.mark.slow
def test_an_experiment_shows_its_progress_and_can_be_cancelled(opened: Any, screen: Any) -> None:
    page = opened("#/lab/14", **screen)
    page.get_by_role("button", name="It holds").click()
    page.get_by_label("training steps").fill("800")
    page.get_by_role("button", name="Run the experiment").click()
    page.locator(".busy-line progress").wait_for(timeout=60_000)
    assert "Training step" in page.locator(".busy-line").inner_text()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Run the experiment").wait_for()
    assert page.locator(".problem").count() == 0
