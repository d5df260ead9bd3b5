"""The widget in a real browser, and a whole notebook: executed, exported, and opened without a network."""

from __future__ import annotations

import base64
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf

# What anywidget's documentation promises to a front end: render({ model, el }) with get, send, on and off.
HOST = """<!doctype html><html><body data-jp-theme-light="%s"><div id="STATIC">static page</div><div id="el"></div>
<script type="module">
import widget from "./widget.js";
const listeners = new Set();
const model = {
  get: (name) => state[name], on: (name, f) => listeners.add(f), off: (name, f) => listeners.delete(f),
  async send(message, callbacks, sent = []) {
    const data = sent.length ? btoa(Array.from(new Uint8Array(sent[0]), (c) => String.fromCharCode(c)).join("")) : "";
    for (const [content, body] of await kernel(message, data)) {
      const buffers = body === null ? [] : [new DataView(Uint8Array.from(atob(body), (c) => c.charCodeAt(0)).buffer)];
      listeners.forEach((f) => f(content, buffers));
    }
  },
};
const state = await initial();
window.leave = await widget.render({ model, el: document.getElementById("el") });
</script></body></html>"""


@pytest.fixture
def hosted(browser: Any) -> Any:
    """`hosted(shown)`: a page with the widget, its messages answered by the real Python side."""
    pages: list[Any] = []
    errors: list[str] = []

    def open_(shown: Any, *, answers: bool = True, dark: bool = False, width: int = 1280) -> Any:
        import glassformer.widget

        widget = shown.widget
        source = (Path(glassformer.widget.__file__).parent / "widget.js").read_text(encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(30_000)
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)

        def serve(route: Any) -> None:
            url = route.request.url
            if url.endswith("widget.js"):
                route.fulfill(body=source, content_type="text/javascript")
            elif url == "http://localhost:9/":
                route.fulfill(body=HOST % ("false" if dark else "true"), content_type="text/html")
            else:
                errors.append(f"a request to {url}")
                route.abort()

        def kernel(message: dict[str, Any], data: str) -> list[Any]:
            if not answers:
                return []
            heard: list[Any] = []
            widget.send = lambda content, buffers=None: heard.append(
                [content, base64.b64encode(buffers[0]).decode() if buffers else None]
            )
            widget._received(widget, message, [memoryview(base64.b64decode(data))] if data else [])
            wait(list(widget._running.values()))
            answered = message["kind"] == "request" or data or '"end"' in message.get("text", "")
            while answered and all(content["kind"] == "progress" for content, _ in heard):
                time.sleep(0.002)
            return heard

        page.route("http*://**/*", serve)
        page.expose_function("kernel", kernel)
        page.expose_function("initial", lambda: {"address": widget.address, "static": "STATIC"})
        page.goto("http://localhost:9/")
        return page

    yield open_
    for page in pages:
        page.close()
    assert not errors, errors


@pytest.mark.slow
def test_the_page_works_over_messages(hosted: Any) -> None:
    page = hosted(gf.show("first-look"))
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="What does “it” look at?").wait_for()
    assert page.locator("#STATIC").is_hidden()
    frame.get_by_label("k of sat, coordinate 1").fill("3")
    frame.locator(".attend [data-at='A.4.3']", has_text="64.4 %").wait_for()
    frame.get_by_role("link", name="Check", exact=True).click()
    frame.get_by_role("heading", name="Find").wait_for()
    assert page.url == "http://localhost:9/"


def test_without_a_kernel_the_static_page_stays(hosted: Any) -> None:
    page = hosted(gf.show("one-query"), answers=False)
    page.wait_for_timeout(300)
    assert page.locator("#STATIC").is_visible()
    assert page.locator("iframe").count() == 0


@pytest.mark.slow
def test_a_grade_and_a_run_in_dark_colours(hosted: Any) -> None:
    page = hosted(gf.show(gf.check("one-query", "S = [[1, 3]]\n")), dark=True, width=500)
    frame = page.frame_locator("iframe")
    frame.locator(".verdict .score", has_text="17 %").wait_for()
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    page = hosted(gf.show(gf.look(gf.load("writer"), "The cat sat by the king")))
    frame = page.frame_locator("iframe")
    frame.locator(".numbers .attend tbody tr").first.wait_for()
    frame.get_by_role("button", name="Switch this head off").click()
    frame.get_by_text("difference").wait_for()
    frame.get_by_role("button", name="Put this row on paper").click()
    frame.get_by_role("heading", name="look at in Decoder?").wait_for()


@pytest.mark.slow
def test_live_and_compare_work_over_messages(hosted: Any) -> None:
    page = hosted(gf.show("one-query"))
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="Compare", exact=True).click()
    frame.locator(".measured td button").first.wait_for()
    frame.get_by_role("link", name="Live", exact=True).click()
    frame.get_by_role("button", name="Play").click()
    frame.get_by_text(", complete").wait_for(timeout=60_000)
    assert "volume" in frame.locator(".transcript").inner_text()
    assert frame.locator(".live-map").evaluate("(map) => map.width") > 20


CELLS = [
    "import glassformer as gf\ngf.show('one-query')",
    "gf.show(gf.check('one-query', 'S = [[1, 3]]\\n'))",
    "from glassformer import figures\nfigures.attention_map([[0.2, 0.8], [0.5, 0.5]])",
]


@pytest.mark.slow
def test_an_exported_notebook_shows_everything_without_a_network(browser: Any, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [list(output.get("data", {})) for cell in notebook.cells for output in cell.outputs]
    assert sum("application/vnd.jupyter.widget-view+json" in kinds for kinds in outputs) == 2
    assert any("image/png" in kinds or "image/svg+xml" in kinds for kinds in outputs), outputs
    html, _ = HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "notebook.html").write_text(html, encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.route("http*://**/*", lambda route: route.abort())
    page.goto((tmp_path / "notebook.html").as_uri(), wait_until="domcontentloaded")
    page.frame_locator("iframe[title='One query, two keys']").get_by_role("heading").first.wait_for()
    page.frame_locator("iframe[title='Grade of the document']").get_by_text("1 wrong").first.wait_for()
    context.close()
