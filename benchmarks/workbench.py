"""Measures the workbench in a real Chromium: sizes, first paint, edits, large maps, many clients, a soak, axe.

    python benchmarks/workbench.py [--update] [--only paint,edits,…] [--soak SECONDS]

`--update` writes the figures into the table of docs/workbench.md, each with the limit that it has to keep; those that
were not measured keep their value. Needs chromium and the `dev` extra. Everything takes about 20 minutes, ten of which
are the soak.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "src" / "glassformer" / "server" / "static"
DOC = ROOT / "docs" / "workbench.md"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--js-flags=--expose-gc"]
TEXT = "The cat sat by the king, because it was tired of the long and winding road that leads down to the sea. "
LAYERS = HEADS = 12
TOKENS = 1024
MB = 1e6
LIMITS = {
    "JS and CSS, gzipped, kB": 90,
    "requests to first use": 45,
    "first paint, ms": 500,
    "usable, ms": 1000,
    "requests to other origins": 0,
    "edit to decimals, p95, ms": 50,
    "edit to exact values, p95, ms": 250,
    f"map of {TOKENS:,} tokens: open, p95, ms": 150,
    f"map of {TOKENS:,} tokens: frame while panning, p95, ms": 17,
    f"{LAYERS * HEADS} heads of {TOKENS:,} tokens: fetched until all are shown, MB": 1,
    "200 clients for 60 s: Paper, p95, ms": 500,
    "200 clients: answers that are 5xx": 0,
    "soak of 600 seconds: largest heap, MB": 150,
}
"""What a row of the table must not exceed."""
CHECKS = {
    "axe: all rooms, light and dark, 360 and 1280 px": "test_rooms_are_accessible",
    "whole tour by keyboard": "test_the_tour_is_finished_by_keyboard_alone",
    "320 px without scrolling sideways": "test_nothing_scrolls_sideways_at_320_pixels",
    "reduced motion": "test_with_reduced_motion_nothing_is_animated",
    "schemathesis on the OpenAPI schema": "test_routes_keep_to_their_schema",
}
"""Rows that a test of tests/server/test_rooms.py decides."""


@dataclass
class Bench:
    """A running server, and the browser that visits it."""

    address: str
    pid: int
    browser: Any
    soak_seconds: float
    clients: int
    client_seconds: float

    def names(self) -> list[str]:
        return [each["name"] for each in self.get("api/exercises")]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=60) as response:
            return json.loads(response.read())

    def memory(self) -> float:
        """Resident memory of the server and its workers, in MB."""
        import psutil

        process = psutil.Process(self.pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True))) / MB


def p95(values: list[float]) -> float:
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


def sizes(bench: Bench) -> dict[str, float]:
    """What a visitor of all rooms downloads."""
    files = [*STATIC.glob("*.js"), *STATIC.glob("*.css"), *STATIC.glob("vendor/*.js")]
    return {"JS and CSS, gzipped, kB": sum(len(gzip.compress(file.read_bytes())) for file in files) / 1e3}


def paint(bench: Bench, visits: int = 7) -> dict[str, float]:
    """The first screen, in a fresh context each time; the median of the visits. Usable: all its numbers are drawn."""
    first, usable, requests, elsewhere = [], [], [], []
    for _ in range(visits + 1):
        context = bench.browser.new_context()
        page = context.new_page()
        seen: list[str] = []
        page.on("request", lambda request, seen=seen: seen.append(request.url))
        page.goto(bench.address)
        page.locator(".attend").wait_for()
        requests.append(len(seen))
        page.wait_for_timeout(500)
        first.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        usable.append(page.evaluate("performance.getEntriesByName('usable')[0].startTime"))
        elsewhere += [url for url in seen if not url.startswith((bench.address, "data:"))]
        context.close()
    return {
        "requests to first use": max(requests),
        "first paint, ms": statistics.median(first[1:]),
        "usable, ms": statistics.median(usable[1:]),
        "requests to other origins": len(elsewhere),
    }


def edits(bench: Bench, rounds: int = 10) -> dict[str, float]:
    """From a change of a given number until its decimals and its exact values are painted, in every exercise.

    The numbers that are changed are spread over all given matrices. Changes add up, so that answers are not remembered
    ones; only numbers that are exchanged, as in `transport`, may come back to an earlier state.
    """
    decimals: dict[str, list[float]] = {}
    exact: dict[str, list[float]] = {}
    page = bench.browser.new_page()
    for name in bench.names():
        page.goto(f"{bench.address}#/paper/{name}")
        page.reload()
        page.locator(".editor input").first.wait_for()
        wait(page, "glassformer.paper.timing.exact")
        timings = [timing for i in range(rounds) if (timing := _edited(page, i / rounds)) is not None]
        assert timings, f"no number of {name} could be changed"
        decimals[name] = [timing["decimals"] for timing in timings]
        exact[name] = [timing["exact"] for timing in timings]
    page.close()
    found = {}
    for lane, by_name in (("decimals", decimals), ("exact values", exact)):
        values = [value for each in by_name.values() for value in each]
        slowest = max(by_name, key=lambda name: statistics.median(by_name[name]))
        print(f"{len(values)} edits of {len(by_name)} exercises; {lane} slowest in {slowest}: {by_name[slowest]}")
        found |= {
            f"edit to {lane}, p95, ms": p95(values),
            f"edit to {lane}, median, ms": statistics.median(values),
        }
    return found


def _edited(page: Any, where: float) -> dict[str, float] | None:
    """Change the number at this fraction of the exercise: one more, twice as much, or exchanged with the next.

    Returns the times until the new values were painted, or None if the exercise does not admit any of these."""
    fields = page.locator(".editor input")
    at = int(where * fields.count())
    own, following = fields.nth(at), fields.nth((at + 1) % fields.count())
    old, other = own.input_value(), following.input_value()
    number = int(old) if re.fullmatch(r"-?\d+", old) else None
    tries = [[(own, str(number + 1))], [(own, str(2 * number))]] if number is not None else []
    swap = [[(own, other), (following, old)]] if old != other else []
    own.focus()
    page.wait_for_timeout(100)
    for changes in [*tries, *swap]:
        before = page.evaluate("glassformer.paper.timing.edited")
        for field, text in changes:
            field.fill(text)
        wait(page, f"glassformer.paper.timing.edited > {before} && (glassformer.paper.timing.exact || problem())")
        with contextlib.suppress(RuntimeError):  # a problem may be that of the first of two changes
            wait(page, "glassformer.paper.timing.exact", 2)
            timing: dict[str, float] = page.evaluate("glassformer.paper.timing")
            timing["decimals"] = timing["decimals"] or timing["exact"]  # exact values may be there first
            return timing
        own.fill(old)
        following.fill(other)
        wait(page, "!problem() && glassformer.paper.timing.exact")
    return None


def wait(page: Any, expression: str, seconds: float = 60) -> None:
    """Wait until an expression is truthy. The page itself looks every 20 ms, which costs it less than being asked."""
    expression = expression.replace("problem()", "document.querySelector('.problem, .note')")
    found = page.evaluate(f"""async () => {{
      const until = performance.now() + {1000 * seconds};
      while (!({expression})) {{
        if (performance.now() > until) return false;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }}
      return true;
    }}""")
    if not found:
        raise RuntimeError(f"still not true: {expression}")


def maps(bench: Bench) -> dict[str, float]:
    """A text of 1,024 tokens in a model of 144 heads: bytes, opening heads, panning."""
    context = bench.browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    fetched = [0.0]
    devtools.on(
        "Network.loadingFinished", lambda event: fetched.__setitem__(0, fetched[0] + event["encodedDataLength"])
    )
    page.goto(f"{bench.address}#/model/large")
    page.get_by_label("Text", exact=True).wait_for(timeout=60_000)
    page.wait_for_timeout(500)
    fetched[0] = 0
    page.get_by_label("Text", exact=True).fill((TEXT * 60)[:CHARACTERS])
    page.get_by_role("button", name="Run").click()
    wait(page, "performance.getEntriesByName('map').length", 120)
    wait(page, "document.querySelectorAll('.thumb canvas').length === 144", 120)
    tokens = page.evaluate("document.querySelector('attention-map').layer.queries")
    assert tokens > 1000, tokens
    page.wait_for_timeout(1000)
    first = fetched[0]
    opened = []
    for i in range(3, 40, 2):
        page.evaluate(
            f"performance.clearMarks('map'); performance.mark('pick'); document.querySelectorAll('.thumb')[{i}].click()"
        )
        wait(page, "performance.getEntriesByName('map').length")
        marks = (
            "performance.getEntriesByName('map')[0].startTime - performance.getEntriesByName('pick').at(-1).startTime"
        )
        opened.append(page.evaluate(marks))
        page.wait_for_timeout(150)
    frames = _pan(page)
    context.close()
    return {
        f"map of {TOKENS:,} tokens: open, p95, ms": p95(opened),
        f"map of {TOKENS:,} tokens: frame while panning, p95, ms": p95(frames),
        f"{LAYERS * HEADS} heads of {TOKENS:,} tokens: fetched until all are shown, MB": first / MB,
    }


CHARACTERS = 3270
"""Characters of TEXT that are just below 1,024 tokens of the shipped tokenizer."""


def _pan(page: Any) -> list[float]:
    """Milliseconds between frames while the zoomed map is dragged."""
    page.evaluate("""() => {
      const map = document.querySelector('attention-map');
      map.view.span = 600; map.clamp(); map.draw();
    }""")
    page.wait_for_timeout(700)
    box = page.locator("attention-map").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.evaluate("""() => {
      window.gaps = [];
      let last = 0;
      const frame = (now) => {
        if (last) window.gaps.push(now - last);
        last = now;
        window.panning = requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    }""")
    for i in range(120):
        page.mouse.move(box["x"] + 300 - 2 * i, box["y"] + 300 - i)
    gaps = page.evaluate("cancelAnimationFrame(window.panning), window.gaps")
    page.mouse.up()
    return list(gaps)


def soak(bench: Bench) -> dict[str, float]:
    """Random use of all rooms: the heap after collection, at the end and its growth over the second half."""
    from playwright.sync_api import TimeoutError

    random.seed(0)
    context = bench.browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    devtools = context.new_cdp_session(page)
    page.goto(bench.address)
    page.locator(".attend").wait_for()
    names = bench.names()
    heap: list[tuple[float, float]] = []
    done = missed = 0
    began = time.monotonic()
    while (now := time.monotonic() - began) < bench.soak_seconds:
        try:
            random.choice(ACTIONS)(page, names)
            done += 1
        except TimeoutError:  # what was to be touched has just gone
            missed += 1
        if not heap or now - heap[-1][0] > bench.soak_seconds / 40:
            devtools.send("HeapProfiler.collectGarbage")
            heap.append((now, devtools.send("Runtime.getHeapUsage")["usedSize"] / MB))
    context.close()
    print(f"{done} actions, {missed} more whose target had gone")
    assert not errors, errors[:3]
    half = [size for seconds, size in heap if seconds > bench.soak_seconds / 2]
    middle = len(half) // 2
    return {
        f"soak of {bench.soak_seconds:g} seconds: largest heap, MB": max(size for _, size in heap),
        "soak: growth of the heap from its third to its last quarter, MB": statistics.median(half[middle:])
        - statistics.median(half[:middle]),
    }


def _exercise(page: Any, names: list[str]) -> None:
    page.evaluate(f"location.hash = '#/paper/{random.choice(names)}'")
    page.wait_for_timeout(250)


def _edit(page: Any, names: list[str]) -> None:
    fields = page.locator(".editor input")
    if count := fields.count():
        fields.nth(random.randrange(count)).fill(str(random.randint(-3, 4)), timeout=2000, force=True)


def _hover(page: Any, names: list[str]) -> None:
    page.mouse.move(random.randrange(20, 1260), random.randrange(60, 840), steps=4)


def _press(page: Any, names: list[str]) -> None:
    page.keyboard.press(random.choice(["Tab", "ArrowDown", "ArrowRight", "Enter", "Backspace", "Escape", "Control+z"]))


def _beta(page: Any, names: list[str]) -> None:
    slider = page.locator(".beta input[type=range]")
    if slider.count():
        slider.first.evaluate(
            "(el, v) => { el.value = v; el.dispatchEvent(new Event('input')); }", str(random.random())
        )


def _room(page: Any, names: list[str]) -> None:
    page.evaluate(f"location.hash = '#/{random.choice(['paper', 'check', 'model/writer', 'lab', 'live', 'compare'])}'")
    page.wait_for_timeout(400)


def _head(page: Any, names: list[str]) -> None:
    thumbs = page.locator(".thumb")
    if count := thumbs.count():
        thumbs.nth(random.randrange(count)).evaluate("(button) => button.click()")
        page.wait_for_timeout(120)


def _scroll(page: Any, names: list[str]) -> None:
    page.mouse.wheel(0, random.choice([-400, 300, 600]))


ACTIONS: list[Callable[[Any, list[str]], None]] = [
    _exercise, _edit, _edit, _edit, _hover, _hover, _press, _press, _beta, _room, _head, _head, _scroll,
]  # fmt: skip


def clients(bench: Bench) -> dict[str, float]:
    """Clients that mix exercises, grading, practice, models and files; no answer may be a 5xx."""
    times: list[float] = []
    codes: list[int] = []
    names = bench.names()
    exercises = {name: bench.get(f"api/exercises/{name}") for name in names}

    def send(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(bench.address + path, data, {"Content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.read()

    def paper(number: int, turn: int) -> None:
        exercise = dict(exercises[names[(number + turn) % len(names)]])
        if "Q" in exercise and "scale" in exercise:  # most are edited, so that not everything is remembered
            exercise["scale"] = f"{1 + number % 9}/{1 + turn % 7}"
        began = time.perf_counter()
        send("api/paper", {"exercise": exercise, "exact": turn % 2 == 0})
        times.append(time.perf_counter() - began)

    def other(number: int, turn: int) -> None:
        match (number + turn) % 5:
            case 0:
                send("api/practice", {"seed": number, "level": "easy"})
            case 1:
                send("api/check/grade", {"exercise": exercises["four-tokens"], "text": "Q = [[1, 2], [2, 0]]"})
            case 2:
                send("api/models/writer/look", {"texts": [f"The cat number {number % 20} sat"]})
            case 3:
                send("api/models")
            case _:
                send("paper.js")

    def client(number: int, over: float) -> None:
        turn = 0
        time.sleep(number / bench.clients)
        while time.perf_counter() < over:
            turn += 1
            try:
                (other if turn % 4 == 0 else paper)(number, turn)
            except urllib.error.HTTPError as error:
                codes.append(error.code)
            except OSError:
                codes.append(599)
            time.sleep(1.0)

    def wave(seconds: float) -> None:
        over = time.perf_counter() + seconds
        threads = [threading.Thread(target=client, args=(i, over)) for i in range(bench.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    wave(10)  # fills the caches, and loads torch and the model
    times.clear()
    before = bench.memory()
    wave(bench.client_seconds)
    n = bench.clients
    return {
        f"{n} clients for {bench.client_seconds:g} s: Paper, p95, ms": p95(times) * 1e3,
        f"{n} clients: Paper, median, ms": statistics.median(times) * 1e3,
        f"{n} clients: requests to Paper per second": len(times) / bench.client_seconds,
        f"{n} clients: answers that are 5xx": sum(code >= 500 for code in codes),
        f"{n} clients: growth of memory of all processes, MB": bench.memory() - before,
    }


def checks(bench: Bench) -> dict[str, str]:
    """What is either so or not, as the tests find it."""
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests/server/test_rooms.py")]
    found = {}
    for row, test in CHECKS.items():
        done = subprocess.run([*tests, "-k", test], capture_output=True, text=True, cwd=ROOT)
        passed = re.search(r"(\d+) passed|100%", done.stdout)
        found[row] = "no finding" if done.returncode == 0 and passed else f"failed: {test}"
        if done.returncode:
            print(done.stdout[-2000:])
    return found


STEPS: dict[str, Callable[[Bench], Mapping[str, float | str]]] = {
    "sizes": sizes, "paint": paint, "edits": edits, "maps": maps, "clients": clients, "checks": checks, "soak": soak,
}  # fmt: skip


def large(folder: Path) -> Path:
    """A GPT-2-shaped model of 12 × 12 heads with random weights and the tokenizer of the shipped writer."""
    import torch

    from glassformer.checkpoints.native import save
    from glassformer.models.decoder import Decoder, plain

    shipped = ROOT / "src" / "glassformer" / "checkpoints" / "shipped" / "writer"
    torch.manual_seed(0)
    model = Decoder(plain(2048, 16 * HEADS, LAYERS, HEADS, TOKENS))
    with (
        torch.no_grad()
    ):  # random weights attend almost evenly: sharper scores make maps that do not compress to nothing
        for name, weight in model.named_parameters():
            if ".attention." in name and weight.dim() >= 2:
                weight.mul_(8)
    made = save(model, folder / "large")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(shipped / name, made / name)
    return made


def start(*models: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "glassformer.cli.main", "serve", "--port", "0", "--no-browser"]
    for model in models:
        command += ["--model", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    return process, found.group()


def busy() -> str:
    """Percentage of the processors' time that was used in one second, by whatever runs here now."""
    import psutil

    return f"{psutil.cpu_percent(interval=1):.0f} %"


def commit() -> str:
    """The commit that is measured."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def limit_of(row: str, value: str) -> str:
    """The limit of a row of the table, marked if it is exceeded."""
    if row in CHECKS:
        return "" if value == "no finding" else "**missed**"
    if row not in LIMITS:
        return ""
    return f"≤ {LIMITS[row]}" + ("" if float(value) <= LIMITS[row] else " **missed**")


def update(measured: Mapping[str, float | str], note: str, partly: bool) -> None:
    """Put the figures into the table; if only a part was measured, the other rows stay."""
    text = DOC.read_text(encoding="utf-8")
    found = re.search(r"<!-- workbench -->\n(.*?)<!-- end -->", text, re.S)
    assert found is not None
    old = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|[^|]*\|$", found[1], re.M))
    old.pop("measured", None)
    rows = (old if partly else {}) | {name: shown(value) for name, value in measured.items()}
    lines = [f"| {name} | {value} | {limit_of(name, value)} |" for name, value in rows.items() if name != "---"]
    table = "\n".join(["| measured | | limit |", "|---|---|---|", *lines])
    DOC.write_text(text.replace(found[0], f"<!-- workbench -->\n{table}\n\n{note}\n<!-- end -->"), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the figures into docs/workbench.md")
    parser.add_argument("--only", default=",".join(STEPS), help=f"of {', '.join(STEPS)}; default: all")
    parser.add_argument("--soak", type=float, default=600, help="seconds of random use")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60, help="seconds during which the clients work")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    steps = args.only.split(",")
    measured: dict[str, float | str] = {}
    before, measured_commit = busy(), commit()
    with tempfile.TemporaryDirectory() as folder:
        process, address = start(*([large(Path(folder))] if "maps" in steps else []))
        try:
            with sync_playwright() as playwright:
                chromium = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                bench = Bench(address, process.pid, browser, args.soak, args.clients, args.seconds)
                for name in steps:
                    found = STEPS[name](bench)
                    measured |= found
                    for row, value in found.items():
                        print(f"{row}: {shown(value)}", limit_of(row, shown(value)), flush=True)
                browser.close()
        finally:
            process.terminate()
            process.wait(20)
    load = f"the processors were {before} busy in the second before the run, and {busy()} in the one after"
    where = f"commit {measured_commit}, Python {platform.python_version()}, {platform.machine()}"
    note = f"{time.strftime('%-d %B %Y')}, {where}; {load}."
    print(note)
    if args.update:
        update(measured, note, partly=set(steps) != set(STEPS))


if __name__ == "__main__":
    main()
