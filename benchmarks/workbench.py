"""Measures the workbench in a real Chromium: sizes, first paint, edits, many clients.

    python benchmarks/workbench.py [--update]

`--update` writes the table between the markers of docs/workbench.md. Needs chromium and the `dev` extra.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "src" / "glassformer" / "server" / "static"
DOC = ROOT / "docs" / "workbench.md"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
EXERCISES = (
    "first-look",
    "four-tokens",
    "columns",
    "padding",
    "two-heads",
    "positions",
    "block",
    "patches",
)


def start() -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "glassformer.cli.main", "serve", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    return process, found.group()


def p95(values: list[float]) -> float:
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


def sizes() -> dict[str, float]:
    files = [*STATIC.glob("*.js"), *STATIC.glob("*.css"), *STATIC.glob("vendor/*.js")]
    return {"JS and CSS, gzipped, kB": sum(len(gzip.compress(file.read_bytes())) for file in files) / 1e3}


def paint(browser: Any, address: str) -> dict[str, float]:
    browser.new_page().goto(address)  # the server is warm from here on
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    began = time.perf_counter()
    page.goto(address)
    page.locator(".attend").wait_for()
    usable = time.perf_counter() - began
    first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    elsewhere = [url for url in requests if not url.startswith((address, "data:"))]
    page.close()
    return {
        "requests to first use": len(requests),
        "first paint, ms": first,
        "usable, ms": usable * 1e3,
        "requests to other origins": len(elsewhere),
    }


def edits(browser: Any, address: str, rounds: int = 6) -> dict[str, float]:
    decimals, exact = [], []
    for name in EXERCISES:
        page = browser.new_page()
        page.goto(f"{address}#/paper/{name}")
        page.locator(".editor input").first.wait_for()
        page.wait_for_timeout(1500)
        for i in range(rounds):
            page.locator(".editor input").last.fill(str(i + 2))
            for _ in range(200):
                timing = page.evaluate("glassformer.paper.timing")
                if timing["exact"] and timing["decimals"]:
                    break
                page.wait_for_timeout(20)
            else:
                raise RuntimeError(f"{name}: no exact values within four seconds")
            decimals.append(timing["decimals"])
            exact.append(timing["exact"])
        page.close()
    return {"edit to decimals, p95, ms": p95(decimals), "edit to exact values, p95, ms": p95(exact)}


def clients(address: str, count: int, seconds: float) -> dict[str, float]:
    """Clients that mix exercises, grading and practice; no answer may be a 5xx."""
    times: list[float] = []
    failures: list[int] = []
    over = time.perf_counter() + seconds
    names = list(EXERCISES)

    def post(path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(address + path, data, {"Content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read())

    def client(number: int) -> None:
        with urllib.request.urlopen(f"{address}api/exercises/{names[number % len(names)]}") as response:
            exercise = json.loads(response.read())
        turn = 0
        while time.perf_counter() < over:
            turn += 1
            began = time.perf_counter()
            try:
                if turn % 5 == 4:
                    post("api/practice", {"seed": number % 10, "level": "easy"})
                else:
                    post("api/paper", {"exercise": exercise, "exact": turn % 2 == 0})
                    times.append(time.perf_counter() - began)
            except urllib.error.HTTPError as error:
                failures.append(error.code)
            time.sleep(1.0)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        f"{count} clients: Paper, p95, ms": p95(times) * 1e3,
        f"{count} clients: Paper, median, ms": statistics.median(times) * 1e3,
        f"{count} clients: answers that are 5xx": sum(code >= 500 for code in failures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/workbench.md")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    process, address = start()
    try:
        measured = sizes()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            measured |= paint(browser, address)
            measured |= edits(browser, address)
            browser.close()
        measured |= clients(address, args.clients, args.seconds)
    finally:
        process.terminate()
        process.wait(20)
    load = f", load {Path('/proc/loadavg').read_text().split()[0]}" if Path("/proc/loadavg").exists() else ""
    note = f"Python {platform.python_version()}, {platform.machine()}{load} at the end of the run."
    table = "\n".join(
        ["| measured | |", "|---|---|", *(f"| {name} | {value:.4g} |" for name, value in measured.items())]
    )
    print(table, note, sep="\n\n")
    if args.update:
        text = DOC.read_text(encoding="utf-8")
        new = re.sub(r"(<!-- workbench -->\n).*?(<!-- end -->)", rf"\1{table}\n\n{note}\n\2", text, flags=re.S)
        DOC.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
