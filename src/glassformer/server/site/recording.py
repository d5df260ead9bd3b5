"""Records responses of the server, for a static site."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from glassformer.errors import InputError
from glassformer.files import replacing
from glassformer.server.asgi import exchange, problem_of, request

Say = Callable[[str], None]
SIDE = 512  # the page requests maps of this side
MANY = 60  # number of queries above which only one row of each head becomes an exercise
PIECE = 0.12  # seconds of audio that the page sends at once


class ResponseBundles:
    """Responses in bundles, each a file of `folder`. `record` lists the parts that are complete, to continue later."""

    def __init__(self, folder: Path, record: Path, version: str, say: Say) -> None:
        self.folder, self.record, self.version, self.say = folder, record, version, say
        self.bundles: dict[str, dict[str, str]] = {}
        self.unwritten: set[str] = set()
        self.done: list[str] = []
        self.refused: list[str] = []
        if record.is_file():
            self._continue()

    def _continue(self) -> None:
        known = json.loads(self.record.read_text(encoding="utf-8"))
        if known["version"] != self.version:
            raise InputError(
                f"{self.record.parent} was started by another version of Glassformer", "choose a new folder"
            )
        self.done, self.refused = known["done"], known["refused"]
        for path in self.folder.glob("*.json"):
            self.bundles[path.stem] = json.loads(path.read_text(encoding="utf-8"))

    def begin(self, part: str) -> bool:
        """Begin a part; return False if it is already complete."""
        self.say(f"{part}: recorded before" if part in self.done else part)
        return part not in self.done

    def keep(self, bundle: str, key: str, answer: str) -> None:
        self.bundles.setdefault(bundle, {})[key] = answer
        self.unwritten.add(bundle)

    def end(self, part: str) -> None:
        """Write the bundles that have changed, then record that the part is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.unwritten:
            with replacing(self.folder / f"{name}.json") as file:
                file.write_text(json.dumps(self.bundles[name], ensure_ascii=False), encoding="utf-8")
        self.unwritten.clear()
        self.done.append(part)
        known = {"version": self.version, "done": self.done, "refused": self.refused}
        with replacing(self.record) as file:
            file.write_text(json.dumps(known), encoding="utf-8")


class Recorder:
    """Sends requests to the application and keeps the responses."""

    def __init__(self, app: Any, kept: ResponseBundles) -> None:
        self.app, self.kept = app, kept

    async def ask(self, bundle: str, method: str, path: str, body: Any = None) -> Any:
        """Record and return the response; None if the request was rejected, which is also recorded."""
        written = None if body is None else json.dumps(body, ensure_ascii=False)
        answer = await request(self.app, method, path, written)
        if answer.status != 200:
            self.kept.refused.append(f"{method} {path}: {problem_of(answer)}")
            return None
        self.keep(bundle, method, path, body, answer.body)
        return json.loads(answer.body) if answer.body[:1] in b"[{" else answer.body

    def keep(self, bundle: str, method: str, path: str, body: Any, answer: bytes) -> None:
        """Store a response under the key that `site.js` derives from the request."""
        key = "" if body is None else json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.kept.keep(bundle, f"{method} {path} {key}", base64.b64encode(answer).decode())

    async def exercises(self) -> None:
        """First screens: every embedded exercise with its decimal and its exact values, and its sheet."""
        if not self.kept.begin("exercises"):
            return
        await self.ask("exercises", "GET", "api/practice")
        for each in await self.ask("exercises", "GET", "api/exercises"):
            data = await self.ask("exercises", "GET", f"api/exercises/{each['name']}")
            await self.ask("exercises", "POST", "api/paper", {"exercise": data, "exact": False})
            await self.ask("exercises", "POST", "api/paper", {"exercise": data, "exact": True})
            await self.ask("exercises", "POST", "api/check/sheet", {"exercise": data})
        self.kept.end("exercises")

    async def models(self, names: Sequence[str]) -> None:
        """One run of each model: every map and row, and every change of every head."""
        listed = json.loads((await request(self.app, "GET", "api/models")).body)
        known = [each["name"] for each in listed["models"]]
        for name in names:
            if name not in known:
                raise InputError(f"there is no model {name!r}", f"choose one of {', '.join(known)}")
        chosen = [each for each in listed["models"] if not names or each["name"] in names]
        kept = {"ready": True, "models": chosen}
        self.keep("models", "GET", "api/models", None, json.dumps(kept).encode())
        clips = await self.ask("models", "GET", "api/clips")
        for each in chosen:
            if self.kept.begin(f"model {each['name']}"):
                await self.model(each["name"], clips)
                self.kept.end(f"model {each['name']}")

    async def model(self, name: str, clips: list[dict[str, str]]) -> None:
        loaded = await request(self.app, "GET", f"api/models/{name}")
        if loaded.status != 200:
            raise InputError(f"{name} cannot be recorded", problem_of(loaded))
        about = json.loads(loaded.body)
        body = await self._input(about, clips)
        answer = await request(self.app, "POST", f"api/models/{name}/look", json.dumps(body))
        if answer.status != 200:
            raise InputError(f"{name} cannot be recorded", problem_of(answer))
        look = json.loads(answer.body)
        base = f"api/looks/{look['id']}"
        # the page opens this run and offers no other input
        self.keep(
            "models",
            "GET",
            f"api/models/{name}",
            None,
            json.dumps({**about, "inputs": [], "look": look["id"]}).encode(),
        )
        self.keep(look["id"], "GET", base, None, answer.body)
        await self.ask(look["id"], "GET", f"{base}/thumbnails.npy")
        for layer in look["layers"]:
            for head in range(layer["heads"]):
                await self._head(base, look, layer, head)

    async def _head(self, base: str, look: dict[str, Any], layer: dict[str, Any], head: int) -> None:
        path, queries = layer["path"], layer["queries"]
        bundle, where = f"{look['id']}-{path}-{head}", f"path={quote(path)}&head={head}"
        await self.ask(bundle, "GET", f"{base}/map.npy?{where}&side={SIDE}")
        rows, columns = look["grid"] or (0, 0)
        first = look["prefix"] + rows // 2 * columns + columns // 2 if look["grid"] else queries - 1  # shown first
        for query in range(queries):
            await self.ask(bundle, "GET", f"{base}/row?{where}&query={query}")
            if queries <= MANY or query == first:
                await self.ask(bundle, "POST", f"{base}/paper", {"path": path, "head": head, "query": query})
        for change in look["changes"]:
            if change != "self" or ".cross" not in path:
                await self.ask(
                    bundle, "POST", f"{base}/change", {"heads": [{"path": path, "head": head}], "change": change}
                )

    async def _input(self, about: dict[str, Any], clips: list[dict[str, str]]) -> dict[str, Any]:
        """The input with which the page opens a model: its example, a drawn digit, or the first recording."""
        if about["picture"]:
            return {"texts": [], "file": about["picture"], "suffix": ".jpg"}
        kind = about["inputs"][0]
        if kind == "text":
            return {"texts": about["example"] or ["The cat sat on the mat."]}
        data = _drawing() if kind == "image" else (await request(self.app, "GET", f"api/clips/{clips[0]['name']}")).body
        suffix = ".png" if kind == "image" else ".flac"
        return {"texts": [], "file": base64.b64encode(data).decode(), "suffix": suffix}

    async def live(self) -> None:
        """The listener's responses to each bundled recording."""
        import io

        import soundfile

        if not self.kept.begin("live transcription"):
            return
        for clip in json.loads((await request(self.app, "GET", "api/clips")).body):
            await self.ask("models", "GET", f"api/clips/{clip['name']}")
            sound = (await request(self.app, "GET", f"api/clips/{clip['name']}")).body
            samples, rate = soundfile.read(io.BytesIO(sound), dtype="float32")
            step = round(rate * PIECE)
            pieces = [samples[at : at + step].tobytes() for at in range(0, len(samples), step)]
            messages: list[str | bytes] = [json.dumps({"rate": rate}), *pieces, json.dumps({"end": True})]
            answers = await exchange(self.app, "api/live", messages)
            self.kept.keep("live", clip["name"], json.dumps(answers))
        self.kept.end("live transcription")

    async def lab(self) -> None:
        """Every claim with its default parameters."""
        for each in await self.ask("lab", "GET", "api/lab"):
            part = f"claim {each['number']}: {each['name']}"
            if self.kept.begin(part):
                await self.ask("lab", "POST", f"api/lab/{each['number']}", {"parameters": {}})
                self.kept.end(part)

    async def comparison(self) -> None:
        """The measured tables and their curves."""
        await self.ask("compare", "GET", "api/compare")
        await self.ask("compare", "GET", "api/compare/figures")
        self.kept.end("comparison")


def _drawing() -> bytes:
    """The digit that the page draws as an example."""
    import io

    from PIL import Image, ImageDraw

    image = Image.new("RGB", (280, 280))
    points = [(90, 85), (140, 60), (190, 90), (180, 135), (135, 150), (185, 165), (195, 205), (145, 235), (85, 210)]
    draw = ImageDraw.Draw(image)
    draw.line(points, "white", 22, joint="curve")
    for x, y in (points[0], points[-1]):
        draw.ellipse((x - 11, y - 11, x + 11, y + 11), "white")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
