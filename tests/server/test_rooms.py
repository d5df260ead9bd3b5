"""Every room as a person uses it, accessible, and its routes against their own schema."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest

from server.conftest import Server, until

ROOMS = ["paper/first-look", "check/four-tokens", "model/writer", "live", "lab/3", "compare"]


def test_a_wrong_answer_is_graded_as_it_is_typed(opened: Any) -> None:
    page = opened("#/check/one-query")
    page.get_by_label("S row 1 column 1").fill("1")
    page.get_by_label("S row 1 column 2").fill("3")
    page.locator(".answer.wrong").wait_for()
    assert page.locator(".answer.right").count() == 1
    assert "2" in page.locator(".mistakes").inner_text()
    page.get_by_role("button", name="Show me").first.click()
    page.locator(".answer.shown").wait_for()
    hint = page.locator("li.step-block", has_text="Compute").first.get_by_role("button", name="Hint")
    hint.click()
    page.get_by_text("Hint 1 of 3.").wait_for()
    page.get_by_role("button", name="Another hint").click()
    page.get_by_text("Hint 2 of 3.").wait_for()


@pytest.mark.slow
def test_pasted_working_is_graded_with_the_mistake_named(opened: Any) -> None:
    page = opened("#/check/four-tokens")
    page.get_by_role("button", name="Paste or drop").click()
    page.get_by_label("Paste your working").fill(
        "Q = [[1, 2], [2, 0], [0, 1], [1, 1]]\nK = [[1, 0], [2, 0], [0, 0], [1, 9]]"
    )
    page.get_by_text("What went wrong").wait_for()
    assert "K[4,2]" in page.locator(".mistakes").inner_text()


@pytest.mark.slow
def test_a_practice_sheet_is_made_and_worked(opened: Any) -> None:
    page = opened("#/check")
    page.get_by_role("heading", name="Four tokens").wait_for()
    page.get_by_role("button", name="New exercise").click()
    page.get_by_role("heading", name="Four tokens").wait_for(state="detached")
    page.locator(".answer input").first.fill("0")
    page.locator(".verdict .score").wait_for()


@pytest.mark.slow
def test_the_tour_is_finished_by_doing_it(opened: Any) -> None:
    page = opened()
    page.get_by_role("heading", name="What does “it” look at?").wait_for()
    page.get_by_role("button", name="Tour").click()
    card = page.locator(".tour")
    following = card.get_by_role("button", name="Next ▸")
    card.get_by_role("button", name="cat", exact=True).click()
    following.click()
    page.locator(".attend [data-at='A.4.2']").focus()
    following.click()
    page.get_by_label("k of sat, coordinate 1").fill("3")
    following.click()
    page.get_by_role("button", name="β = 0").click()
    until(page, "glassformer.paper.state.view.attention.beta.value === 0")
    page.get_by_role("button", name="β = infinity").click()
    following.click()
    page.get_by_role("button", name="Hide the future").click()
    page.locator(".who").get_by_role("button", name="cat").click()
    following.click()
    until(page, "!glassformer.paper.state.stale && glassformer.paper.state.view.attention.mask === 'none'")
    page.locator("g.mark.v").nth(1).focus()
    page.keyboard.press("ArrowRight")
    following.click()
    page.get_by_role("button", name="All rows").click()
    following.click()
    page.get_by_role("button", name="One head more").click()
    following.click()
    page.get_by_role("link", name="This row in a real model ▸").click()
    page.get_by_role("button", name="Switch this head off").click(timeout=60_000)
    page.get_by_role("button", name="Do one yourself ▸").click(timeout=60_000)
    page.get_by_role("heading", name="One query, two keys").wait_for()


@pytest.mark.slow
def test_zoom_into_a_model_and_back_onto_paper(opened: Any) -> None:
    page = opened("#/model/writer")
    page.locator(".side .attend tbody tr").first.wait_for(timeout=60_000)
    weights = page.locator(".side .attend .weight .num").all_inner_texts()[:4]
    page.get_by_role("button", name="Switch this head off").click()
    page.get_by_text("difference").wait_for(timeout=60_000)
    page.get_by_role("button", name="Put this row on paper ▸").click()
    page.get_by_role("heading", name="What does “it” look at in writer?").wait_for(timeout=60_000)
    assert page.locator(".paper .weight .num").all_inner_texts()[:4] == weights
    page.go_back()
    page.locator("attention-map").wait_for()


@pytest.mark.slow
def test_a_digit_is_drawn_and_an_image_dropped(opened: Any) -> None:
    from PIL import Image

    page = opened("#/model/digits")
    page.locator(".options tbody tr").first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Clear").click()
    box = page.locator(".pad").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 25)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 25, steps=10)
    page.mouse.up()
    until(page, "document.querySelector('.options tbody th')?.textContent === '1'", 60)
    page.locator("rect.patch").nth(5).click()
    until(page, "location.hash.includes('q=6')")
    file = io.BytesIO()
    Image.new("RGB", (40, 40), (200, 30, 30)).save(file, "png")
    image = base64.b64encode(file.getvalue()).decode()
    page.evaluate(
        """(data) => {
          const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "red.png", { type: "image/png" }));
          const drop = new DragEvent("drop", { dataTransfer: transfer, bubbles: true });
          document.querySelector(".inputs.drop").dispatchEvent(drop);
        }""",
        image,
    )
    until(page, "document.querySelector('.options tbody th')?.textContent !== '1'", 60)


@pytest.mark.slow
def test_a_recording_is_heard_while_it_plays(opened: Any) -> None:
    page = opened("#/live")
    page.locator("option").first.wait_for(state="attached", timeout=60_000)
    page.get_by_role("button", name="Play").click()
    page.get_by_text("complete").wait_for(timeout=90_000)
    assert "conference" in page.locator(".transcript").inner_text()
    assert page.evaluate("document.querySelector('.live-map').width") > 20


@pytest.mark.slow
def test_a_claim_is_guessed_and_tried(opened: Any) -> None:
    page = opened("#/lab/3")
    page.get_by_role("button", name="It holds").click(timeout=60_000)
    page.get_by_role("button", name="Run the experiment").click()
    page.locator(".verdict-line").wait_for(timeout=60_000)
    assert page.locator(".claim figure img").evaluate("(image) => image.naturalWidth") > 100


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_rooms_are_accessible(opened: Any, room: str, width: int, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(f"#/{room}", width=width, dark=dark, bypass_csp=True)
    page.locator(".room h1, .room .pick").first.wait_for(timeout=60_000)
    page.wait_for_timeout(4000 if room.startswith("model") else 1500)
    found = Axe().run(page).response["violations"]
    assert not found, [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_routes_keep_to_their_schema(server: Server) -> None:
    """schemathesis: no answer that the schema does not describe, and no 5xx, whatever is sent."""
    import subprocess
    import sys
    from pathlib import Path

    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"{server.address}api/openapi.json",
        "--max-examples", "8", "--request-timeout", "120", "--phases", "fuzzing", "--seed", "1",
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
