"""Every room as a person uses it, accessible, and its routes against their own schema."""

from __future__ import annotations

import io
from typing import Any

import pytest

from server.conftest import Server, drop, start, stop, until

ROOMS = [
    "paper/first-look", "check/four-tokens", "model/writer", "model/digits", "model/listener", "live", "lab/3",
    "compare",
]  # fmt: skip


def test_a_wrong_answer_is_graded_as_it_is_typed(opened: Any, screen: Any) -> None:
    page = opened("#/check/one-query", **screen)
    page.get_by_label("S row 1 column 1").fill("1")
    page.get_by_label("S row 1 column 2").fill("3")
    page.locator(".answer.wrong").wait_for()
    assert page.locator(".answer.right").count() == 1
    said = page.locator(".mistakes").inner_text()
    assert "2" in said
    assert "line" not in said  # a grid has none
    page.get_by_role("button", name="Show me").first.click()
    page.locator(".answer.shown").wait_for()
    page.locator("li.step-block", has_text="Scores").get_by_role("button", name="Hint").click()
    page.get_by_text("Hint 1 of 3.").wait_for()
    page.get_by_role("button", name="Another hint").click()
    page.get_by_text("Hint 2 of 3.").wait_for()


@pytest.mark.slow
def test_the_toolbar_of_check_stands_still(opened: Any, screen: Any) -> None:
    """Its first drawing is its last place, whatever arrives later."""
    page = opened(**screen)
    page.locator(".attend").wait_for()
    page.evaluate("""() => {
      window.places = new Set();
      const look = () => {
        const tools = document.querySelector(".check .tools");
        if (tools) places.add([...tools.querySelectorAll("button, select, input")].map((each) => {
          const box = each.getBoundingClientRect();
          return [box.x, box.y, box.width].map(Math.round).join();
        }).join(";"));
        requestAnimationFrame(look);
      };
      look();
      location.hash = "#/check/block";
    }""")
    page.locator("option[value='one-query']").wait_for(state="attached")
    page.locator(".answer").first.wait_for()
    assert page.evaluate("places.size") == 1


@pytest.mark.slow
def test_pasted_working_is_graded_with_the_mistake_named(opened: Any, screen: Any) -> None:
    page = opened("#/check/four-tokens", **screen)
    page.get_by_role("button", name="Paste or drop").click()
    page.get_by_label("Paste your working").fill(
        "Q = [[1, 2], [2, 0], [0, 1], [1, 1]]\nK = [[1, 0], [2, 0], [0, 0], [1, 9]]"
    )
    page.get_by_text("What went wrong").wait_for()
    assert "K[4,2]" in page.locator(".mistakes").inner_text()
    assert "all 8 of H" in page.locator(".verdict").inner_text()  # as the grid calls it
    page.get_by_role("button", name="Show me").click()
    page.locator(".answer.flat.shown", has_text="9").wait_for()


@pytest.mark.slow
@pytest.mark.console_error("422")
def test_a_dropped_document_is_graded(opened: Any, screen: Any) -> None:
    """A Word file is read by the server; a photograph is refused in words."""
    import docx

    working = docx.Document()
    working.add_paragraph("Q = [[1, 2], [2, 0], [0, 1], [1, 1]]")
    working.add_paragraph("K = [[1, 0], [2, 0], [0, 0], [1, 9]]")
    file = io.BytesIO()
    working.save(file)
    page = opened("#/check/four-tokens", **screen)
    page.get_by_role("button", name="Paste or drop").click()
    drop(page, ".drop", "homework.docx", file.getvalue())
    page.get_by_text("What went wrong").wait_for()
    assert "K[4,2]" in page.locator(".mistakes").inner_text()
    page.get_by_text("homework.docx is graded.").wait_for()
    drop(page, ".drop", "photo.jpg", b"\xff\xd8\xff")
    page.get_by_role("alert").wait_for()
    assert "is an image" in page.get_by_role("alert").inner_text()
    page.locator(".mistakes").wait_for(state="detached")


@pytest.mark.slow
def test_a_practice_sheet_is_made_and_worked(opened: Any, screen: Any) -> None:
    page = opened("#/check", **screen)
    page.get_by_role("heading", name="Four tokens").wait_for()
    page.get_by_role("button", name="New exercise").click()
    page.get_by_role("heading", name="Four tokens").wait_for(state="detached")
    page.locator(".answer input").first.fill("0")
    page.locator(".verdict .score").wait_for()


UNCOVERED = """(selectors) => selectors.every((selector) => {
  const [a, b] = [selector, "#tour-card"].map((each) => document.querySelector(each)?.getBoundingClientRect());
  const apart = a && b && (a.bottom <= b.top || a.top >= b.bottom || a.right <= b.left || a.left >= b.right);
  return apart && a.width && a.top >= 0 && a.bottom <= innerHeight && a.left >= 0 && a.right <= innerWidth; })"""


@pytest.mark.slow
@pytest.mark.parametrize("screen", [{"height": 650}, {"height": 800, "dark": True}, {"width": 360, "height": 740}])
def test_the_tour_is_finished_by_doing_it(opened: Any, screen: Any) -> None:
    """Its card never covers what an action needs, and nothing has to be scrolled before Model."""
    page = opened(**screen)
    page.get_by_role("heading", name="What does “it” look at?").wait_for()
    page.get_by_role("button", name="Tour").click()
    card = page.locator(".tour")

    def needs(*selectors: str) -> None:
        until(page, f"({UNCOVERED})({list(selectors)})", 20)

    def go_on() -> None:
        card.get_by_role("button", name="Next ▸").click()
        page.mouse.move(0, 0)

    needs(".who")
    card.get_by_role("button", name="cat", exact=True).click()
    go_on()
    needs(".attend")
    page.locator(".attend [data-at='A.4.2']").focus()
    needs(".attend", ".said")
    go_on()
    needs(".attend")
    page.get_by_label("k of sat, coordinate 1").fill("3")
    go_on()
    needs(".beta", ".plane")
    page.get_by_role("button", name="β = 0").click()
    until(page, "glassformer.paper.state.view.attention.beta.value === 0")
    page.get_by_role("button", name="β = infinity").click()
    go_on()
    needs(".tools button")
    page.get_by_role("button", name="Hide the future").click()
    needs(".who")
    page.locator(".who").get_by_role("button", name="cat").click()
    needs(".attend")
    go_on()
    until(page, "!glassformer.paper.state.stale && glassformer.paper.state.view.attention.mask === 'none'")
    needs(".plane")
    page.locator("g.mark.v").nth(1).focus()
    page.keyboard.press("ArrowRight")
    go_on()
    needs(".tools button + button")
    page.get_by_role("button", name="All rows").click()
    needs(".heat")
    go_on()
    needs(".tools .stepper")
    page.get_by_role("button", name="One head more").click()
    needs(".heads")
    go_on()
    needs(".under a")
    page.get_by_role("link", name="This row in a real model ▸").click()
    page.get_by_role("button", name="Switch this head off").click(timeout=60_000)
    needs(".answers .row button")
    page.get_by_role("button", name="Do one yourself ▸").click(timeout=60_000)
    page.get_by_role("heading", name="One query, two keys").wait_for()


def press_until(page: Any, key: str, condition: str, most: int = 120) -> None:
    """Press a key until a JavaScript condition holds."""
    for _ in range(most):
        if page.evaluate(condition):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} did not lead to {condition}")


def tab_to(page: Any, name: str) -> None:
    """Tab until the focused control has this name."""
    press_until(page, "Tab", f"""(() => {{ const e = document.activeElement;
      return (e?.getAttribute("aria-label") ?? e?.textContent ?? "").trim().startsWith({name!r}); }})()""")  # fmt: skip


@pytest.mark.slow
def test_the_tour_is_finished_by_keyboard_alone(opened: Any) -> None:
    page = opened()
    page.locator(".attend").wait_for()
    keys = page.keyboard

    def act(name: str, key: str = "Enter") -> None:
        tab_to(page, name)
        keys.press(key)

    def go_on(step: int) -> None:
        until(page, f"glassformer.tour.tour.done && glassformer.tour.tour.at === {step - 1}", 90)
        act("Next")
        until(page, f"glassformer.tour.tour.at === {step} && document.activeElement.id === 'tour-card'")

    act("Tour")
    until(page, "document.activeElement.id === 'tour-card'")
    act("cat")
    go_on(1)
    tab_to(page, "weight of cat")
    go_on(2)
    tab_to(page, "k of sat, coordinate 1")
    keys.type("3")
    go_on(3)
    act("β = 0")
    until(page, "glassformer.paper.state.view.attention.beta.value === 0")
    act("β = infinity")
    go_on(4)
    act("Hide the future")
    until(page, "glassformer.paper.state.view.attention.mask === 'causal'")
    press_until(page, "Tab", "document.activeElement.matches('.who .token') && "
                "document.activeElement.textContent === 'cat'", 200)  # fmt: skip
    keys.press("Enter")
    go_on(5)
    until(page, "glassformer.paper.state.view.attention.mask === 'none'")
    tab_to(page, "value of cat")
    keys.press("ArrowRight")
    go_on(6)
    act("All rows")
    go_on(7)
    act("One head more")
    go_on(8)
    act("This row in a real model")
    page.get_by_role("button", name="Switch this head off").wait_for(timeout=90_000)
    act("Switch this head off")
    until(page, "glassformer.tour.tour.done", 90)
    act("Do one yourself")
    page.get_by_role("heading", name="One query, two keys").wait_for()


@pytest.mark.slow
def test_zoom_into_a_model_and_back_onto_paper(opened: Any, screen: Any) -> None:
    page = opened("#/model/writer", **screen)
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
def test_a_translation_opens_on_the_words_it_comes_from(opened: Any) -> None:
    """The cat sat on the chair because it was tired: the row that predicts the last word attends to "tired"."""
    page = opened("#/model/translator")
    page.get_by_role("heading", name="(cross-attention)").wait_for(timeout=60_000)
    until(page, "document.querySelector('.side .attend tbody th')?.textContent === 'tired'", 60)
    assert page.locator(".thumb").first.get_attribute("aria-pressed") == "true"
    page.get_by_text("the translation looks at its source").wait_for()
    page.evaluate("location.hash = '#/model/translator?t=The+cat+sat+on+the+chair+because+it+was+tired.&u=Le+chat'")
    until(page, "document.querySelectorAll('.map .token').length === 3", 60)
    box = page.locator("attention-map canvas").bounding_box()
    assert box["height"] < 0.5 * box["width"], "a map of few queries is low"
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + box["height"] - 5)
    until(page, "location.hash.endsWith('q=3')")


@pytest.mark.slow
def test_a_digit_is_drawn_and_an_image_dropped(opened: Any, screen: Any) -> None:
    from PIL import Image, ImageDraw

    page = opened("#/model/digits", **screen)
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
    ring = Image.new("RGB", (40, 40), "white")
    ImageDraw.Draw(ring).ellipse((8, 5, 32, 35), outline="black", width=4)
    ring.save(file, "png")
    drop(page, ".inputs.drop", "ring.png", file.getvalue())
    until(page, "document.querySelector('.options tbody th')?.textContent === '0'", 60)


@pytest.mark.slow
def test_a_recording_is_transcribed_while_it_plays(opened: Any, screen: Any) -> None:
    page = opened("#/live", **screen)
    page.locator("option").first.wait_for(state="attached", timeout=60_000)
    page.get_by_role("button", name="Play").click()
    page.get_by_text("complete").wait_for(timeout=90_000)
    assert "speaking volume" in page.locator(".transcript").inner_text()
    assert page.evaluate("document.querySelector('.live-map').width") > 20


@pytest.mark.slow
def test_a_claim_is_guessed_and_tried(opened: Any, screen: Any) -> None:
    page = opened("#/lab/3", **screen)
    page.get_by_role("button", name="It holds").click(timeout=60_000)
    page.get_by_role("button", name="Run the experiment").click()
    page.locator(".verdict-line").wait_for(timeout=60_000)
    until(page, "document.querySelector('.claim figure img').naturalWidth > 100")
    wide = page.viewport_size["width"] > 700
    assert page.evaluate("document.querySelector('.claim figure img').naturalWidth > 500") is wide
    page.get_by_text("The experiment agrees").wait_for()
    page.get_by_label("number of keys").press("ArrowRight")
    page.get_by_text("Measured before the sliders were moved").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_rooms_are_accessible(opened: Any, width: int, dark: bool) -> None:
    """axe finds nothing in any room, and none scrolls sideways."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for room in ROOMS:
        page = opened(f"#/{room}", width=width, dark=dark, bypass_csp=True)
        settle(page, room)
        found += [(room, each["id"], [node["html"][:160] for node in each["nodes"][:3]])
                  for each in Axe().run(page).response["violations"]]  # fmt: skip
        assert page.evaluate("document.documentElement.scrollWidth") <= width, room
        page.close()
    assert not found


READY = {
    "paper": ".attend", "check": ".answer", "model": ".answers", "live": "option", "lab": ".claim",
    "compare": ".measured",
}  # fmt: skip


def settle(page: Any, room: str) -> None:
    """Wait until a room shows what it is for."""
    page.locator(READY[room.split("/")[0]]).first.wait_for(state="attached", timeout=90_000)
    page.wait_for_timeout(500)


@pytest.mark.slow
def test_nothing_scrolls_sideways_at_320_pixels(opened: Any) -> None:
    page = opened(width=320)
    for room in ROOMS:
        page.evaluate(f"location.hash = '#/{room}'")
        settle(page, room)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, room
    for claim in page.locator(".claims button").all():
        claim.evaluate("(button) => button.click()")
        page.wait_for_timeout(50)
        right = (
            "Math.max(...[...document.querySelectorAll('.formula math')].map((m) => m.getBoundingClientRect().right))"
        )
        assert page.evaluate(f"{right} <= document.querySelector('.formula').getBoundingClientRect().right"), claim


@pytest.mark.slow
def test_with_reduced_motion_nothing_is_animated(opened: Any) -> None:
    page = opened("#/paper/first-look", reduced_motion="reduce")
    page.evaluate("() => { document.startViewTransition = () => { throw new Error('animated'); }; }")
    page.get_by_role("link", name="This row in a real model ▸").click()
    page.locator("attention-map").wait_for(timeout=90_000)
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.slow
@pytest.mark.console_error("status of 4")
@pytest.mark.parametrize("address", ["paper/nothing", "paper?x=nothing", "check/nothing", "model/nothing", "lab/99"])
def test_an_address_of_nothing_is_explained(opened: Any, address: str) -> None:
    page = opened(f"#/{address}")
    page.get_by_role("alert").wait_for(timeout=90_000)
    page.wait_for_timeout(700)  # answers that come later leave it there
    assert page.get_by_role("alert").count() == 1


@pytest.mark.slow
def test_compare_shows_the_shipped_measurements(opened: Any, screen: Any) -> None:
    page = opened("#/compare", **screen)
    page.locator(".measured td button").nth(2).click(timeout=90_000)
    assert page.get_by_label("Table").locator("option").count() > 10
    page.locator(".chosen-cell", has_text="Transformer, distance 64: 5/5").wait_for()
    until(page, "document.querySelector('.details figure img')?.naturalWidth > 100", 90)
    page.get_by_label("Table").select_option(label="Streaming")
    page.get_by_role("heading", name="Streaming").wait_for()
    assert page.url.endswith("#/compare/6")


@pytest.mark.slow
@pytest.mark.console_error("ERR_CONNECTION_REFUSED")
def test_the_page_stays_readable_without_its_server(browser: Any) -> None:
    running = start()
    page = browser.new_page()
    page.goto(running.address)
    page.locator(".attend").wait_for()
    stop(running)
    page.get_by_label("k of sat, coordinate 1").first.fill("3")
    page.get_by_text("The server is not responding").first.wait_for()
    assert page.locator(".attend tbody tr").count() == 4
    again = start("--port", running.address.rstrip("/").rsplit(":", 1)[1])
    page.locator(".banner").wait_for(state="detached", timeout=30_000)
    until(
        page, "document.querySelector('.attend tr:nth-child(3) .weight').textContent === '64.4 %'"
    )  # follows the edit
    page.close()
    stop(again)


@pytest.mark.slow
def test_routes_keep_to_their_schema(server: Server) -> None:
    """schemathesis: no answer that the schema does not describe, and no 5xx, whatever is sent."""
    import subprocess
    import sys
    from pathlib import Path

    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"{server.address}api/openapi.json",
        "--max-examples", "25", "--request-timeout", "120", "--phases", "examples,coverage,fuzzing", "--seed", "1",
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
        "negative_data_rejection",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
