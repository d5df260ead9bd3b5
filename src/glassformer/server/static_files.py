"""The files of the page, read and compressed once and served from memory, so that no other file can be requested."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".css": "text/css", ".html": "text/html"}


@dataclass(frozen=True)
class File:
    """The content of a file, plain and compressed, with its type and entity tag."""

    plain: bytes
    compressed: bytes
    type: str
    tag: str

    @classmethod
    def read(cls, path: Path) -> File:
        body = path.read_bytes()
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
        return cls(body, gzip.compress(body), kind, f'"{hashlib.sha256(body).hexdigest()[:20]}"')


class StaticFiles:
    """An ASGI application. Browsers revalidate scripts and styles on each visit, so that an update is seen at once."""

    def __init__(self, folder: Path) -> None:
        self.files = {
            "/" + path.relative_to(folder).as_posix(): File.read(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # a handshake at an address other than /api/live
            await send({"type": "websocket.close", "code": 1000})
            return
        response = self.respond(scope["method"], scope["path"], Headers(scope=scope))
        await response(scope, receive, send)

    def respond(self, method: str, path: str, headers: Headers) -> Response:
        """Return the file, or 304 if the browser has it already."""
        if method not in ("GET", "HEAD"):
            raise HTTPException(405, f"{method} is not allowed here", {"allow": "GET, HEAD"})
        file = self.files.get("/index.html" if path == "/" else path)
        if file is None:
            raise HTTPException(404, "there is no such page")
        cache = "max-age=3600" if path.endswith(".svg") else "no-cache"
        own = {"cache-control": cache, "etag": file.tag, "vary": "accept-encoding"}
        if headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=own)
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(file.compressed, media_type=file.type, headers=own | {"content-encoding": "gzip"})
        return Response(file.plain, media_type=file.type, headers=own)
