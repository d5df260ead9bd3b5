"""Paper as a person uses it, by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import Any

import pytest

from server.conftest import until

NEW = "#/paper/first-look"


def weight(page: Any, word: str) -> str:
    return page.locator("table.attend tbody tr", has_text=word).locator(".weight .num").inner_text()


def settled(page: Any) -> None:
    """Until the exact values are there."""
    until(page, "glassformer.paper.state.view?.exact && !glassformer.paper.state.stale")


def test_the_first_screen_shows_what_it_attends_to(opened: Any, screen: Any) -> None:
    page = opened(**screen)
    page.get_by_role("heading", name="What does “it” look at?").wait_for()
    assert weight(page, "cat") == "61.0 %"
    settled(page)
    assert "0.6103" in page.locator(".equation").inner_text()
    assert page.locator(".equation math").count() == 1
    assert "(1.45, 1.39)" in re.sub(r"\s+(?=[),])|(?<=\()\s+", "", page.locator(".output").inner_text())


def test_editing_a_key_changes_the_steps(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    page.get_by_label("k of sat, coordinate 1").fill("3")
    until(page, "document.querySelector('.equation').textContent.includes('sat')")
    assert page.locator("#step-S [data-at='S.4.3']").inner_text() == "3"
    page.get_by_role("button", name="Undo", exact=True).click()
    until(page, "document.querySelector('.equation').textContent.includes('cat')")


def test_beta_from_zero_to_infinity(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    page.get_by_role("button", name="β = 0").click()
    until(page, "[...document.querySelectorAll('.weight .num')].every(e => e.textContent === '25.0 %')")
    page.get_by_role("button", name="β = infinity").click()
    until(page, "[...document.querySelectorAll('.weight .num')].some(e => e.textContent === '100.0 %')")
    assert weight(page, "cat") == "100.0 %"
    assert re.sub(r"\s", "", page.locator(".output").inner_text()).endswith("=(2,2)")
    until(page, "location.hash.includes('b=inf')")


def test_a_beta_that_is_being_typed_outlasts_the_answer_to_an_earlier_change(opened: Any) -> None:
    page = opened(NEW)
    settled(page)
    held: list[Any] = []
    holding = [True]
    page.route("**/api/paper", lambda route: held.append(route) if holding else route.continue_())
    page.get_by_role("button", name="β = infinity").click()
    box = page.get_by_label("β, a number, an expression in dk, or ∞")
    box.fill("2.5")
    until(page, "glassformer.paper.state.stale")
    holding.clear()
    for route in held:
        route.continue_()
    until(page, "glassformer.paper.state.view.attention.beta.value === 'inf' && !glassformer.paper.state.stale")
    assert box.input_value() == "2.5"
    box.press("Enter")
    until(page, "glassformer.paper.state.view.attention.beta.value === 2.5")


def test_dragging_the_query_moves_the_weights(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    handle = page.locator("g.mark.q")
    box = handle.locator(".ring").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y - 190, steps=8)
    page.mouse.up()
    until(page, "document.querySelector('.equation').textContent.includes('sat')")
    assert page.get_by_label("q of it, coordinate 2").input_value() not in ("", "0")


def test_pointing_at_a_number_writes_its_sum_out(opened: Any) -> None:
    page = opened(NEW)
    settled(page)
    page.locator("table.attend [data-at='S.4.2']").first.hover()
    for said in (".said", "#live"):
        until(page, f"document.querySelector('{said}')?.textContent === 'q·k cat = 1·2 + 0·1 = 2'")
    outlined = page.locator(".numbers .operand")
    assert sorted({outlined.nth(i).get_attribute("data-at") for i in range(outlined.count())}) == [
        "K.2.1", "K.2.2", "Q.4.1", "Q.4.2",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.console_error("ERR_FAILED")
def test_a_number_that_came_without_its_operands_is_asked_for(opened: Any) -> None:
    """Decimals, and exercises of many numbers, come without the operands of every cell."""
    page = opened(NEW)
    settled(page)
    page.route(
        "**/api/paper", lambda route: route.abort() if '"exact":true' in route.request.post_data else route.continue_()
    )
    page.get_by_label("k of cat, coordinate 1").first.fill("3")
    until(page, "!glassformer.paper.state.view.exact")
    assert page.evaluate("glassformer.paper.state.view.steps.find((step) => step.symbol === 'H').cells") is None
    page.locator("#step-H [data-at='H.4.1']").hover()
    until(page, "document.querySelector('.said')?.textContent.includes('0.8')")
    assert page.locator("#step-A .operand").count() == 4
    until(page, "document.querySelector('#live').textContent === document.querySelector('.said').textContent")


@pytest.mark.slow
def test_numbers_are_walked_by_keyboard(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    settled(page)
    page.locator("#step-A [data-at='A.4.2']").focus()
    for key, address in (("ArrowRight", "A.4.3"), ("Enter", "S.4.1"), ("Backspace", "A.4.3")):
        page.keyboard.press(key)
        until(page, f"document.activeElement.dataset.at === '{address}'")
    page.locator("g.mark.q").focus()
    page.keyboard.press("ArrowUp")
    until(page, "document.activeElement.getAttribute('aria-label').includes('(1, 0.5)')")


@pytest.mark.slow
def test_an_address_holds_the_whole_exercise(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    page.get_by_label("k of the, coordinate 1").fill("sqrt(5)")
    until(page, "location.hash.includes('x=')")
    again = opened(page.evaluate("location.hash"), **screen)
    again.get_by_role("heading", name="What does “it” look at?").wait_for()
    assert again.get_by_label("k of the, coordinate 1").input_value() == "sqrt(5)"


@pytest.mark.console_error("422")
def test_a_wrong_number_is_explained_and_undone(opened: Any) -> None:
    page = opened(NEW)
    page.get_by_label("k of the, coordinate 1").fill("1/")
    page.get_by_role("alert").wait_for()
    assert "1/" in page.get_by_role("alert").inner_text()
    marked = page.locator("input[aria-invalid]").evaluate_all("(all) => all.map((each) => each.dataset.at)")
    assert marked == ["K.1.1", "K.1.1"]  # in the table and in the matrix
    page.get_by_role("alert").get_by_role("button", name="Undo").click()
    page.get_by_role("alert").wait_for(state="detached")
    assert page.locator("input[aria-invalid]").count() == 0


@pytest.mark.slow
def test_mask_layout_heads_tokens_and_rows(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    page.get_by_role("button", name="All rows").click()
    page.get_by_role("button", name="Hide the future").click()
    page.locator("td.masked").first.wait_for()
    assert page.locator("td.masked").count() == 6
    layout = page.get_by_role("group", name="Tokens as").get_by_role("button", name="columns")
    layout.click()
    until(page, "glassformer.paper.state.view.layout === 'columns'")
    assert "softargmax(β Kᵀq)" in page.locator(".equation").inner_text()
    layout.and_(page.locator("[aria-pressed=true]")).wait_for()
    page.get_by_role("button", name="One head more").click()
    page.get_by_role("button", name="head 2").wait_for()
    page.get_by_role("button", name="One token more").click()
    page.get_by_role("button", name="word 5").first.wait_for()
    settled(page)
    assert page.locator(".problem").count() == 0
    page.evaluate("location.hash = '#/paper/padding'")
    page.get_by_role("heading", name="A padded sentence").wait_for()
    page.get_by_role("button", name="Hide the future").click()  # in place of the padding
    until(page, "glassformer.paper.state.view.attention.mask === 'causal'")


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_sideways(opened: Any, width: int, dark: bool) -> None:
    page = opened(NEW, width=width, dark=dark)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_weights_of_the_query_are_in_sight_at_every_width(opened: Any) -> None:
    page = opened(NEW, width=700)
    for width in (700, 720, 800, 900, 955, 956, 1024, 1100, 1101, 1280):
        page.set_viewport_size({"width": width, "height": 1000})
        settled(page)
        hidden = page.evaluate(
            "[...document.querySelectorAll('.numbers .scroll')].some(each => each.scrollWidth > each.clientWidth)"
        )
        assert not hidden, width


@pytest.mark.slow
@pytest.mark.console_error("422")
def test_open_and_export(opened: Any, screen: Any) -> None:
    page = opened(NEW, **screen)
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_label("Text of the exercise").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Open", exact=True).click()
    page.get_by_text("the exercise is empty").wait_for()
    page.get_by_label("Text of the exercise").fill("Q: [[1]]\nK: [[1], [2]]\nV: [[1], [3]]\n")
    page.get_by_role("dialog").get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("heading", name="Exercise", exact=True).wait_for()
    assert page.locator("select.exercise option:checked").inner_text() == "Exercise"
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_label("Text of the exercise").fill("title: Mine\nQ: [[1]]\nK: [[1], [2]]\nV: [[1], [3]]\n")
    page.get_by_role("dialog").get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("heading", name="Mine").wait_for()
    page.get_by_role("button", name="Save", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Solution (LaTeX)").click()
    assert saved.value.suggested_filename == "exercise.tex"


@pytest.mark.slow
def test_a_dialog_keeps_the_focus_and_closes_on_escape(opened: Any) -> None:
    page = opened(NEW)
    page.get_by_role("button", name="Save", exact=True).focus()
    page.keyboard.press("Enter")
    until(page, "document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Save"


@pytest.mark.slow
def test_pasted_cells_are_undone_together(opened: Any) -> None:
    page = opened(NEW, permissions=["clipboard-read", "clipboard-write"])
    settled(page)
    page.evaluate("navigator.clipboard.writeText('1\\t2\\n3\\t4')")
    page.locator(".editor [data-at='K.1.1']").focus()
    page.keyboard.press("Control+v")
    until(page, "JSON.stringify(glassformer.paper.state.exercise.K) === '[[1,2],[3,4],[0,2],[1,0]]'")
    page.keyboard.press("Control+z")
    until(page, "JSON.stringify(glassformer.paper.state.exercise.K) === '[[0,0],[2,1],[0,2],[1,0]]'")


@pytest.mark.slow
def test_numbers_that_scroll_under_the_pointer_are_not_selected(opened: Any) -> None:
    page = opened("#/paper/two-heads", height=600)
    settled(page)
    page.mouse.move(400, 300)
    page.mouse.move(402, 302)
    for step in ("Q1", "A1", "H2", "O"):
        page.locator(f"#step-{step} [data-at='{step}.1.1']").focus()
        page.wait_for_timeout(300)
        assert page.evaluate("document.activeElement.dataset.at") == f"{step}.1.1"
        assert page.locator(".num.at").first.get_attribute("data-at") == f"{step}.1.1"


@pytest.mark.slow
def test_a_number_is_dragged_sideways(opened: Any) -> None:
    page = opened("#/paper/first-look")
    field = page.get_by_label("k of cat, coordinate 1").first
    box = field.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5 + 17, box["y"] + 5, steps=4)
    page.mouse.up()
    until(page, "glassformer.paper.state.exercise.K[1][0] === 4")
    until(page, "document.querySelector(\"[aria-label='k of cat, coordinate 1']\").value === '4'")
    page.keyboard.press("Control+z")
    until(page, "glassformer.paper.state.exercise.K[1][0] === 2")


@pytest.mark.slow
@pytest.mark.console_error("422")
def test_decimals_stay_where_exact_values_cannot_be_computed(opened: Any) -> None:
    page = opened("#/paper/first-look")
    page.locator(".equation math").wait_for()
    box = page.locator(".beta input.box")
    box.fill("1e9")
    box.press("Enter")
    page.get_by_text("Only decimals are shown; exact values cannot be computed").wait_for()
    assert page.locator(".attend [data-at='A.4.2']").inner_text() == "100.0 %"
    assert page.locator(".problem, .stale").count() == 0
    box.fill("1e400")
    box.press("Enter")
    page.locator(".problem", has_text="too large").wait_for()
