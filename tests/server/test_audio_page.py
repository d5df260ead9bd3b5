"""Recordings as a person gives them: dropped, and spoken into the microphone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from server.conftest import Server, clip, drop, until

HEARD = "document.querySelector('.transcript').textContent.includes('volume')"


@pytest.mark.slow
def test_a_recording_is_dropped_into_model_and_live(opened: Any, server: Server, screen: Any) -> None:
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(clip(server)))
    file = io.BytesIO()
    soundfile.write(file, samples[: rate // 2 * 2], rate, format="wav")  # shorter than the recording shown at first
    page = opened("#/model/listener", **screen)
    page.locator(".said-text").wait_for(timeout=90_000)
    first = page.evaluate("document.querySelector('.thumbs h2').textContent")
    queries = page.locator(".map .token").count()
    drop(page, ".inputs.drop", "mine.wav", file.getvalue())
    until(page, f"document.querySelectorAll('.map .token').length < {queries}", 90)
    assert page.evaluate("document.querySelector('.thumbs h2').textContent") == first
    page.evaluate("location.hash = '#/live'")
    page.get_by_role("button", name="Play").wait_for()
    drop(page, ".room.live", "mine.flac", clip(server))
    page.get_by_text(", complete").wait_for(timeout=90_000)
    assert page.evaluate(HEARD)


@pytest.mark.slow
def test_a_file_that_is_no_recording_is_explained(opened: Any) -> None:
    page = opened("#/live")
    page.get_by_role("button", name="Play").wait_for(timeout=90_000)
    drop(page, ".room.live", "notes.txt", b"no sound")
    page.get_by_role("alert").wait_for()
    assert "WAV, FLAC or Ogg" in page.get_by_role("alert").inner_text()


@pytest.fixture
def spoken(launch: Any, server: Server, tmp_path: Path) -> Any:
    """A page whose microphone hears the bundled recording, after half a second of silence, once."""
    import numpy as np
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(clip(server)), dtype="float32")
    quiet = np.zeros(rate // 2, np.float32)
    soundfile.write(tmp_path / "spoken.wav", np.concatenate([quiet, samples, quiet, quiet]), rate, subtype="PCM_16")
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    running = launch(*flags, f"--use-file-for-fake-audio-capture={tmp_path / 'spoken.wav'}%noloop")
    page = running.new_page()
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    running.close()
    assert not wrong, wrong


@pytest.mark.slow
def test_live_hears_the_microphone(spoken: Any, server: Server) -> None:
    spoken.goto(f"{server.address}#/live")
    spoken.get_by_role("button", name="Microphone").click()
    rows = "document.querySelector('.live-map').width"
    until(spoken, f"{rows} > 20 && document.querySelector('.transcript .pending')", 60)
    early = spoken.evaluate(rows)
    until(spoken, HEARD, 60)
    assert spoken.evaluate(rows) > early
    spoken.get_by_role("button", name="Stop").click()
    spoken.get_by_text(", complete").wait_for()
    spoken.get_by_role("button", name="Stop").wait_for(state="detached")
    seconds = spoken.get_by_text("s received").inner_text()
    spoken.wait_for_timeout(500)
    assert spoken.get_by_text("s received").inner_text() == seconds


@pytest.mark.slow
def test_model_hears_the_microphone(spoken: Any, server: Server) -> None:
    spoken.goto(f"{server.address}#/model/listener")
    spoken.locator(".said-text").wait_for(timeout=90_000)
    rows = spoken.locator(".map .token").count()
    spoken.get_by_role("button", name="Microphone").click()
    spoken.get_by_role("button", name="Stop").wait_for()
    spoken.wait_for_timeout(3500)
    spoken.get_by_role("button", name="Stop").click()
    until(spoken, f"document.querySelectorAll('.map .token').length !== {rows}", 60)
    assert "volume" in spoken.locator(".said-text").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "fact"), [
    ([], "no microphone was found: connect one, or"),
    (["--use-fake-device-for-media-stream", "--deny-permission-prompts"],
     "this page may not use the microphone: allow it in the browser, or"),
])  # fmt: skip
def test_a_microphone_that_cannot_be_used_is_explained(
    launch: Any, server: Server, flags: list[str], fact: str
) -> None:
    page = launch(*flags).new_page()
    for room, ready, instead in (
        ("live", "option", "play a recording"),
        ("model/listener", ".said-text", "choose a file"),
    ):
        page.goto(f"{server.address}#/{room}")
        page.locator(ready).first.wait_for(state="attached", timeout=90_000)
        page.get_by_role("button", name="Microphone").click()
        page.get_by_role("alert").wait_for()
        assert page.get_by_role("alert").inner_text() == f"{fact} {instead}"
