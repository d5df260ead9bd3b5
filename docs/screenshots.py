"""Draws the screenshots of README.md and docs/workbench.md, in a real Chromium.

    python docs/screenshots.py

Needs chromium and the `dev` extra.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


def main() -> None:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "glassformer.cli.main", "serve", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1180, "height": 710})
            page.set_default_timeout(90_000)
            paper(page, found.group())
            zoom(page, found.group())
            browser.close()
    finally:
        process.terminate()
        process.wait(20)
    few_colours()


def paper(page: Any, address: str) -> None:
    """The first screen."""
    page.goto(f"{address}#/paper/first-look?at=A.4.2")
    page.locator(".equation math").wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=DOCS / "workbench-paper.png")


def zoom(page: Any, address: str) -> None:
    """The same row in a model and on paper."""
    page.set_viewport_size({"width": 1180, "height": 880})
    page.goto(f"{address}#/model/writer")
    page.locator(".options tbody tr").first.wait_for()
    page.locator(".thumb canvas").first.wait_for()
    page.wait_for_timeout(1000)
    page.screenshot(path=DOCS / "workbench-model.png")
    page.set_viewport_size({"width": 1180, "height": 700})
    page.get_by_role("button", name="Put this row on paper").click()
    page.get_by_role("heading", name="in writer").wait_for()
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)
    page.screenshot(path=DOCS / "workbench-zoom.png")


def few_colours() -> None:
    """Screenshots have few colours: 256 of them are a third of the bytes."""
    from PIL import Image

    for path in DOCS.glob("workbench-*.png"):
        with Image.open(path) as image:
            image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
