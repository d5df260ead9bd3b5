"""Work for a request that stops when its client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

Result = TypeVar("Result")


async def cancel_on_disconnect(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of `work`, which is cancelled when the client disconnects."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved even if nobody waits
    disconnection = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, disconnection}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(400, "the client disconnected")
        return task.result()
    finally:
        task.cancel()
        disconnection.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
