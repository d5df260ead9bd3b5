"""A static copy of the workbench, for any web server and any path: `glassformer site -o FOLDER`.

Paper, Check and practice run in the browser with Pyodide; Model, Live, Lab and Compare replay responses of the server's
routes that were recorded when the site was generated.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import InputError
from glassformer.server.app import STATIC, create_app
from glassformer.server.asgi import running
from glassformer.server.settings import Limits, Settings
from glassformer.server.site.recording import Recorder, ResponseBundles

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1]
WASM = "pyodide.asm.wasm"
UNFINISHED = "unfinished.json"  # which parts of the site are recorded
# What the exercise engine needs: it never imports torch.
PARTS = ("__init__.py", "errors.py", "lazy.py", "progress.py", "templates", "exercises", "report", "server")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Site:
    """The folder, its size, and the requests that were rejected during recording."""

    folder: Path
    megabytes: float
    refused: list[str]


def write_site(
    folder: Path,
    *,
    models: Sequence[str] = (),
    lab: bool = True,
    results: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Site:
    """Write the site. `models` are the shipped models to record, by default all of them.

    An interrupted site is continued if the package has not changed.
    """
    from glassformer.data.registry import place_of
    from glassformer.data.sources import ITEMS

    pyodide = place_of("pyodide", ITEMS)
    if not pyodide.is_dir():
        raise InputError(
            "Pyodide, which runs the exercises in the browser, is missing", "glassformer data fetch pyodide"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / UNFINISHED).is_file():
        raise InputError(f"{folder} is not empty", "choose a new folder")
    recordings = ResponseBundles(folder / "recorded", folder / UNFINISHED, _version(), say)
    with ThreadPoolExecutor(1) as thread:  # also works where an event loop is already running, as in a notebook
        thread.submit(lambda: asyncio.run(_record(recordings, models, lab, results))).result()
    say("writing the files")
    shutil.copytree(STATIC, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("api.*"))
    for name in ("site.js", "worker.js"):
        shutil.copy(HERE / name, folder / name)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>'
    page = page.replace("<title>", head, 1).replace('src="app.js"', 'src="site.js"')
    (folder / "index.html").write_text(page, encoding="utf-8")
    shutil.copytree(pyodide, folder / "pyodide", ignore=shutil.ignore_patterns("fetched.json", WASM))
    # Compressed to a third of its size, whether or not the web server compresses; the worker unpacks it. The name does
    # not end in .gz, since servers treat such files differently.
    (folder / "pyodide" / f"{WASM}.packed").write_bytes(gzip.compress((pyodide / WASM).read_bytes(), mtime=0))
    _zip(folder / "glassformer.zip")
    (folder / UNFINISHED).unlink()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Site(folder, size / 1e6, recordings.refused)


async def _record(recordings: ResponseBundles, models: Sequence[str], lab: bool, results: Path | None) -> None:
    # long time limits: nobody waits for an answer, and none may be missing on a slow machine
    patient = Limits(load_seconds=3600, model_seconds=3600, lab_seconds=6 * 3600)
    async with running(create_app(Settings(results=results, limits=patient))) as app:
        recorder = Recorder(app, recordings)
        await recorder.exercises()
        await recorder.models(models)
        await recorder.live()
        if lab:
            await recorder.lab()
        await recorder.comparison()


def _version() -> str:
    """A digest of the package, since recordings of another version cannot be continued."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _zip(target: Path) -> None:
    """The part of this package that runs in the browser."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            place = PACKAGE / part
            files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
            for path in files:
                if "__pycache__" not in path.parts and "static" not in path.parts and path.suffix != ".js":
                    archive.write(path, f"glassformer/{path.relative_to(PACKAGE).as_posix()}")
