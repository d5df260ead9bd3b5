"""Checks of every request before it reaches a route: host, origin, token, size, time."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from glassformer.server.error_response import error_response
from glassformer.server.settings import Settings, is_loopback

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

COOKIE = "glassformer"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(self)",
}


class Safety:
    """ASGI middleware around the whole application, WebSockets included."""

    def __init__(self, app: App, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        reason = self._refusal(scope, headers)
        if reason is not None:
            await _refuse(scope, receive, send, *reason)
            return
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
            return
        cookie = self._cookie(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(key.encode(), value.encode()) for key, value in HEADERS.items()]
                if cookie:
                    own.append((b"set-cookie", cookie.encode()))
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        try:
            body = await asyncio.wait_for(self._body(headers, receive), self.settings.limits.upload_seconds)
        except TimeoutError:
            seconds = self.settings.limits.upload_seconds
            await _refuse(scope, receive, send, 408, "the request was too slow", f"send it within {seconds:g} seconds")
            return
        if body is None:
            most = f"send at most {self.settings.limits.body:,} bytes"
            await _refuse(scope, receive, send, 413, "the request is too large", most)
            return
        await self.app(scope, _replay(body, receive), guarded)

    def _refusal(self, scope: Message, headers: dict[str, str]) -> tuple[int, str, str] | None:
        names = [key for key, _ in scope["headers"]]
        if names.count(b"host") > 1 or names.count(b"origin") > 1:
            return 400, "the request has two Host or Origin headers", "send one of each"
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 403, f"the Host {host[:80]!r} is not this server", "open the address that glassformer serve printed"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, f"pages of {origin[:80]!r} may not use this server", "open the workbench itself"
        if self.settings.token is not None and not self._has_token(scope, headers):
            return 401, "this address needs a token", "open the whole address that glassformer serve printed"
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether the Host is an address of this server; other names may be DNS rebinding."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            port = urlsplit(f"//{host}").port
        except ValueError:
            return False
        if "@" in host or (port is not None and self.settings.port and port != self.settings.port):
            return False
        if is_loopback(name) or name == self.settings.host.lower():
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not is_loopback(self.settings.host)

    def _has_token(self, scope: Message, headers: dict[str, str]) -> bool:
        return any(
            hmac.compare_digest(given.encode(), str(self.settings.token).encode()) for given in _tokens(scope, headers)
        )

    def _cookie(self, scope: Message) -> str | None:
        if self.settings.token is None or "token" not in parse_qs(scope["query_string"].decode("latin-1")):
            return None
        return f"{COOKIE}={self.settings.token}; HttpOnly; SameSite=Strict; Path=/"

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | None:
        """Read the whole body; return None if it exceeds the limit."""
        most = self.settings.limits.body
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > most:
            return None
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"".join(parts)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                return None
            if not message.get("more_body"):
                return b"".join(parts)


def _tokens(scope: Message, headers: dict[str, str]) -> list[str]:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return found
    return [*found, *([cookies[COOKIE].value] if COOKIE in cookies else [])]


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body once, and then the client's next message, usually a disconnect."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _refuse(scope: Message, receive: Receive, send: Send, status: int, fact: str, remedy: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": f"{fact}: {remedy}"[:120]})
        return
    accept = b",".join(value for key, value in scope["headers"] if key == b"accept").decode("latin-1")
    kind, body = error_response(scope["path"], accept, fact, remedy)
    headers = {"content-type": kind, "content-length": str(len(body)), "connection": "close", **HEADERS}
    own = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})
