"""Routes of the Model room: views of `report.model`, computed in a bounded pool of threads. torch is imported lazily.

Only shipped models and the folders named on the command line can be opened, by name; paths never come from the page.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from glassformer.errors import InputError
from glassformer.progress import listening, report
from glassformer.server.body import Body
from glassformer.server.disconnect import cancel_on_disconnect
from glassformer.server.events import WorkStatus
from glassformer.server.jobs import Job, importing
from glassformer.server.settings import Settings
from glassformer.server.workers import Busy

if TYPE_CHECKING:
    from torch import nn

    from glassformer.report.model import Look

router = APIRouter(tags=["models"])
Result = TypeVar("Result")

SHIPPED = FilePath(__file__).parents[1] / "checkpoints" / "shipped"
KEPT = 8  # number of runs that are kept
CLIPS = 6  # bundled recordings that are offered
FIRST_CLIP = "confbridge-rest-talk-vol-out"  # "...to reset your speaking volume to the default level."

EXAMPLES: dict[str, list[str]] = {
    "writer": ["The cat sat by the king, because it"],
    "translator": ["The cat sat on the chair because it was tired."],
    "finder": ["The cat sat on the chair because it was tired.", "The tired cat was sitting on a chair."],
}


@dataclass(frozen=True)
class TimeLimit:
    """The time that `what` may take, and the advice if it takes longer."""

    seconds: float
    what: str
    remedy: str


class Models:
    """Models by name, looks by id, and the threads in which they are computed."""

    def __init__(self, settings: Settings) -> None:
        self.limits, self.device, self.precision = settings.limits, settings.device, settings.precision
        if self.device not in ("auto", "cpu"):  # a device that is missing is reported at the start, not on the page
            from glassformer.runtime.device import choose_device

            choose_device(self.device)
        shipped = sorted(path.parent for path in SHIPPED.glob("*/glassformer.json"))
        self.folders = {folder.name: folder for folder in (*shipped, *settings.models)}
        for folder in settings.models:
            if not folder.is_dir():
                raise InputError(f"--model {folder} is not a folder", "give a folder with a model")
        self.threads = ThreadPoolExecutor(2, "model")
        self.waiting = 0
        self.loaded: dict[str, nn.Module] = {}
        self.looks: OrderedDict[str, Look] = OrderedDict()
        self.pinned: dict[str, Look] = {}  # never evicted: a notebook's own runs
        self.lock = threading.Lock()
        self.loading = threading.Lock()
        self.ready = False

    def warm(self) -> None:
        """Import torch in the background; `ready` is True once it is imported."""
        if not self.ready:
            self.threads.submit(self._import)

    def _import(self) -> None:
        with importing:
            interval = sys.getswitchinterval()
            sys.setswitchinterval(interval / 10)  # importing torch takes seconds, during which edits must be answered
            try:
                import glassformer.report.model  # noqa: F401
            finally:
                sys.setswitchinterval(interval)
        self.ready = True

    def imported(self, work: Callable[[], Result]) -> Result:
        """Run `work` once torch and the models are imported."""
        if not self.ready:
            report("Importing torch")
            self._import()
        return work()

    def folder(self, name: str) -> FilePath:
        if name not in self.folders:
            raise InputError(f"there is no model {name!r}", f"choose one of {', '.join(self.folders)}")
        return self.folders[name]

    def model(self, name: str) -> nn.Module:
        """Return the model of that name, which is loaded once."""
        from glassformer.pipelines.loading import load

        folder = self.folder(name)
        with self.loading:
            if name not in self.loaded:
                report("Loading the weights")
                self.loaded[name] = load(folder, device=self.device, precision=self.precision).eval()
            return self.loaded[name]

    def look(self, key: str) -> Look:
        with self.lock:
            if key in self.pinned:
                return self.pinned[key]
            if key not in self.looks:
                raise InputError(f"the run {key!r} has expired", "run the model again")
            self.looks.move_to_end(key)
            return self.looks[key]

    def keep(self, key: str, look: Look) -> None:
        with self.lock:
            self.looks[key] = look
            while len(self.looks) > KEPT:
                self.looks.popitem(last=False)

    def add(self, name: str, look: Look, model: nn.Module | None) -> str:
        """Register an existing run and its model; return the id of the run."""
        key = hashlib.sha256(f"{name} {id(look)}".encode()).hexdigest()[:16]
        with self.lock:
            self.pinned[key] = look
            if model is not None:
                self.folders[name] = FilePath(name)
                self.loaded[name] = model
        return key

    async def run(self, request: Request, work: Callable[[], Result], limit: TimeLimit | None = None) -> Result:
        """Run `work` in a thread. It is stopped when the client disconnects or the time limit is exceeded."""
        limit = limit or TimeLimit(self.limits.model_seconds, "the model", "give a shorter input")
        if self.waiting >= self.limits.waiting:
            raise Busy(self.waiting)
        self.waiting += 1
        status: WorkStatus = request.scope.get("status") or WorkStatus()
        status.update("Waiting for other work to finish", 0, 0)
        job = Job(work)

        def reported() -> Result:
            with listening(status.update):
                report("")
                return self.imported(job)

        try:
            future = asyncio.wrap_future(self.threads.submit(reported))
            return await cancel_on_disconnect(request, asyncio.wait_for(future, limit.seconds))
        except TimeoutError:
            raise InputError(f"{limit.what} takes longer than {limit.seconds:g} seconds", limit.remedy) from None
        finally:
            self.waiting -= 1
            if not job.ended:
                asyncio.get_running_loop().run_in_executor(None, job.abandon)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


async def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


Known = Annotated[Models, Depends(_models)]
Name = Annotated[str, Path(max_length=80, examples=["digits"])]
Id = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Layer = Annotated[str, Query(max_length=120)]
Number = Annotated[int, Query(ge=0, le=100_000)]


class RunInputs(Body):
    """Texts, or an image or a recording as base64."""

    texts: list[Annotated[str, Field(max_length=8000)]] = Field(default_factory=list, max_length=2)
    file: str | None = Field(default=None, max_length=16_000_000)
    suffix: Literal["", ".png", ".jpg", ".wav", ".flac", ".ogg"] = ""


class HeadAt(Body):
    path: str = Field(max_length=120)
    head: int = Field(ge=0, le=4096)


class Edit(Body):
    heads: list[HeadAt] = Field(min_length=1, max_length=64)
    change: Literal["off", "uniform", "self", "first"] = "off"


class RowAt(HeadAt):
    query: int = Field(ge=0, le=100_000)
    keys: int = Field(default=5, ge=1, le=10)
    coordinates: int = Field(default=2, ge=1, le=4)


@router.get("/models")
async def list_models(models: Known) -> dict[str, Any]:
    """The models that can be opened; this request also imports torch in the background."""
    models.warm()
    return {"ready": models.ready, "models": [_described(name, folder) for name, folder in models.folders.items()]}


def _described(name: str, folder: FilePath) -> dict[str, Any]:
    card = folder / "card.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    paragraphs = [part for part in text.split("\n\n") if part and not part.startswith("#")]
    return {"name": name, "about": " ".join(paragraphs[0].split()) if paragraphs else ""}


@router.get("/models/{name}")
async def get_model(name: Name, models: Known, request: Request) -> dict[str, Any]:
    """The inputs and capabilities of a model."""

    def facts() -> dict[str, Any]:
        from glassformer.models import protocols

        model = models.model(name)
        return {
            "name": name,
            "architecture": type(model).__name__,
            "inputs": list(protocols.inputs_of(model)),
            "verbs": list(protocols.verbs(model)),
            "facts": protocols.sizes_of(model),
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "example": EXAMPLES.get(name, []),
            "picture": _picture(models.folder(name)),
        }

    models.folder(name)
    limit = TimeLimit(models.limits.load_seconds, f"loading {name}", "try again when the machine is less busy")
    return await models.run(request, facts, limit)


def _picture(folder: FilePath) -> str:
    """The example image in a model's folder as base64, or nothing."""
    path = folder / "example.jpg"
    return base64.b64encode(path.read_bytes()).decode() if path.is_file() else ""


@router.post("/models/{name}/look")
async def look(name: Name, body: RunInputs, models: Known, request: Request) -> dict[str, Any]:
    """Run a model on one input and keep the trace."""
    models.folder(name)
    try:
        file = None if body.file is None else base64.b64decode(body.file, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("file is not base64", "send the bytes of the file as base64") from None
    if (file is None) != (body.suffix == "") or (file is None and not any(text.strip() for text in body.texts)):
        raise InputError("the input is empty", "give a text, or a file with its suffix")
    digest = hashlib.sha256(repr((name, body.texts, body.suffix)).encode() + (file or b"")).hexdigest()[:16]

    def work() -> dict[str, Any]:
        from glassformer.models import protocols
        from glassformer.report.model import Given, Look

        texts = tuple(text for text in body.texts if text.strip())
        given = Given(texts=texts, file=file, suffix=body.suffix)
        given.require(pixels=models.limits.pixels, seconds=models.limits.audio_seconds)
        model = models.model(name)
        _require_input(protocols.inputs_of(model), body.suffix)
        made = Look(name, model, given, most_tokens=models.limits.tokens)
        models.keep(digest, made)
        return {"id": digest, **made.summary()}

    return await models.run(request, work)


def _require_input(inputs: tuple[str, ...], suffix: str) -> None:
    kind = "text" if not suffix else "image" if suffix in (".png", ".jpg") else "audio"
    if inputs and inputs[0] != kind:
        raise InputError(f"this model takes {inputs[0]}, not {kind}", f"give it {inputs[0]}")


def _npy(make: Callable[[], Any]) -> bytes:
    from glassformer.report.model import to_npy

    return to_npy(make())


NPY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/x-npy": {}}, "description": "A NumPy array."}}


def _array(body: bytes) -> Response:
    return Response(body, media_type="application/x-npy", headers={"cache-control": "private, max-age=3600"})


@router.get("/looks/{id}")
async def get_look(id: Id, models: Known, request: Request) -> dict[str, Any]:
    """An earlier run."""
    made = models.look(id)
    return await models.run(request, lambda: {"id": id, **made.summary()})


@router.get("/looks/{id}/thumbnails.npy", responses=NPY, response_class=Response)
async def thumbnails(id: Id, models: Known, request: Request) -> Response:
    """A small map of every head, in the order of the layers."""
    made = models.look(id)
    return _array(await models.run(request, lambda: _npy(made.thumbnails)))


@router.get("/looks/{id}/map.npy", responses=NPY, response_class=Response)
async def whole_map(
    id: Id, path: Layer, head: Number, models: Known, request: Request, side: Annotated[int, Query(ge=8, le=2048)] = 512
) -> Response:
    """A of one head, max-pooled to at most `side` rows and columns."""
    made = models.look(id)
    return _array(await models.run(request, lambda: _npy(lambda: made.map(path, head, side))))


@router.get("/looks/{id}/region.npy", responses=NPY, response_class=Response)
async def region(
    id: Id,
    path: Layer,
    head: Number,
    top: Number,
    left: Number,
    models: Known,
    request: Request,
    height: Annotated[int, Query(ge=1, le=1024)] = 256,
    width: Annotated[int, Query(ge=1, le=1024)] = 256,
) -> Response:
    """A part of A at full size."""
    made = models.look(id)
    return _array(await models.run(request, lambda: _npy(lambda: made.region(path, head, top, left, height, width))))


@router.get("/looks/{id}/row")
async def row(id: Id, path: Layer, head: Number, query: Number, models: Known, request: Request) -> dict[str, Any]:
    """One query of one head: weights, scores, and q·k by coordinate."""
    made = models.look(id)
    return await models.run(request, lambda: made.row(path, head, query))


@router.post("/looks/{id}/change")
async def change(id: Id, body: Edit, models: Known, request: Request) -> dict[str, Any]:
    """The answer before and after heads are ablated or their attention is replaced."""
    made = models.look(id)
    heads = [(each.path, each.head) for each in body.heads]
    return await models.run(request, lambda: made.changed(heads, body.change))


@router.post("/looks/{id}/paper")
async def on_paper(id: Id, body: RowAt, models: Known, request: Request) -> dict[str, Any]:
    """One row of a head as an exercise whose solution is its weights."""
    made = models.look(id)
    arguments = (body.path, body.head, body.query, body.keys, body.coordinates)
    return await models.run(request, lambda: made.on_paper(*arguments))


@router.get("/clips")
async def clips(models: Known, request: Request) -> list[dict[str, str]]:
    """Recordings that come with Glassformer."""
    return await models.run(request, lambda: [{"name": path.stem, "text": text} for path, text in _clips()])


@router.get("/clips/{name}", responses={200: {"content": {"audio/flac": {}}}}, response_class=Response)
async def clip(name: Name, models: Known, request: Request) -> Response:
    """One of these recordings."""

    def read() -> bytes:
        found = {path.stem: path for path, _ in _clips()}
        if name not in found:
            raise InputError(f"there is no recording {name!r}", f"choose one of {', '.join(found)}")
        return found[name].read_bytes()

    return Response(await models.run(request, read), media_type="audio/flac")


def _clips() -> list[tuple[FilePath, str]]:
    """Held-out sentences of the only real voice in the listener's training data, a few seconds each."""
    from glassformer.data.sources.opening import unpack

    folder = unpack("asterisk-en")
    rows = [line.split("\t") for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    good = [(folder / path, text) for path, text in rows if 20 <= len(text) <= 90 and (folder / path).is_file()]
    return sorted(good[:CLIPS], key=lambda clip: clip[0].stem != FIRST_CLIP)
