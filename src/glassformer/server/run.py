"""Starting and stopping the server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from glassformer.errors import InputError
from glassformer.server.settings import Settings


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `ready` is called with the address once the server answers."""
    import uvicorn

    from glassformer.server.app import create_app
    from glassformer.server.protocol import Protocol

    sock = _bind(settings)
    settings = replace(settings, port=sock.getsockname()[1])

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(address(settings))

    config: Any = uvicorn.Config(
        create_app(settings),
        http=partial(Protocol, seconds=settings.limits.upload_seconds),  # type: ignore[arg-type]  # called like a class
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        ws_max_size=1 << 20,
    )
    with sock:
        Server(config).run(sockets=[sock])


def address(settings: Settings) -> str:
    """Return the address to open, with its token if it needs one."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.host in ("0.0.0.0", "::"):
        host = _own_address()
    return f"http://{host}:{settings.port}/" + (f"?token={settings.token}" if settings.token else "")


def _own_address() -> str:
    """Return the address of this machine in the local network. Connecting a UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio disables Nagle's algorithm only on sockets that name their protocol; with it, answers wait up to 40 ms
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        raise InputError(
            f"--port {settings.port} on {settings.host} cannot be used ({reason})", "choose another"
        ) from None
    sock.set_inheritable(True)
    return sock
