"""A pool of persistent worker processes whose work can be stopped, unlike exact arithmetic in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import OrderedDict
from typing import Any

from glassformer.errors import InputError
from glassformer.server.worker import PROBLEM, RESULT

GRACE = 0.3  # seconds that abandoned work may still take before its process is killed
CACHED = 256  # maximum number of cached results, and
CACHED_BYTES = 8 << 20  # their maximum total size


class Busy(Exception):
    """The maximum number of requests is already waiting."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting:,} requests are waiting")


class Crashed(Exception):
    """A worker process ended in the middle of a task."""


class Worker:
    """One process, one task at a time."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.starting = asyncio.Lock()

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process unless it is running, and wait until it has imported everything."""
        async with self.starting:
            if self.process is None or self.process.returncode is not None:
                self.process = await self._started()
            return self.process

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "glassformer.server.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the server, which stops its workers itself
        )
        try:
            await self._receive(process)
        except asyncio.CancelledError:  # the server stopped while its workers were starting
            process.kill()
            raise
        return process

    async def run(self, message: bytes, seconds: float) -> bytes:
        """Send one message and return the answer. The process is killed on timeout and when the caller is cancelled."""
        process = await self.start()
        assert process.stdin is not None
        process.stdin.write(message)
        answer = asyncio.ensure_future(self._receive(process))
        try:
            return await asyncio.wait_for(asyncio.shield(answer), seconds)
        except TimeoutError:
            self.kill()
            raise InputError(f"this takes longer than {seconds:g} seconds", "use smaller or simpler numbers") from None
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError, Crashed):
                await asyncio.wait_for(asyncio.shield(answer), GRACE)
            if not answer.done():
                self.kill()
            raise
        finally:
            if not answer.done():
                answer.cancel()

    async def _receive(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        try:
            size = int.from_bytes(await process.stdout.readexactly(4), "big")
            return await process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            self.process = None
            raise Crashed from None

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.process = None


class Pool:
    """A pool of workers with a cache of results. Tasks are run in the order in which they arrive."""

    def __init__(self, workers: int, waiting: int) -> None:
        self.workers = [Worker() for _ in range(workers)]
        self.idle: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        for worker in self.workers:
            self.idle.put_nowait(worker)
        self.most_waiting = waiting
        self.waiting = 0
        self.cache: OrderedDict[bytes, bytes] = OrderedDict()
        self.cached = 0  # bytes

    async def run(self, task: str, seconds: float, **arguments: Any) -> bytes:
        """Run a task of `report.paper` and return its result as JSON."""
        try:
            body = json.dumps({"task": task, "arguments": arguments}, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError("a text contains half of a character (a lone surrogate)", "send valid Unicode") from None
        if body in self.cache:
            self.cache.move_to_end(body)
            return self.cache[body]
        if self.waiting >= self.most_waiting:
            raise Busy(self.waiting)
        self.waiting += 1
        try:
            worker = await self.idle.get()
        finally:
            self.waiting -= 1
        try:
            answer = await worker.run(len(body).to_bytes(4, "big") + body, seconds)
        except Crashed:
            raise InputError("these numbers grow too large", "use smaller numbers or fewer of them") from None
        finally:
            self.idle.put_nowait(worker)
        kind, result = answer[:1], answer[1:]
        if kind == PROBLEM:
            raise InputError(**json.loads(result))
        if kind != RESULT:
            raise RuntimeError(json.loads(result))
        self._remember(body, result)
        return result

    def _remember(self, body: bytes, result: bytes) -> None:
        self.cache[body] = result
        self.cached += len(body) + len(result)
        while len(self.cache) > CACHED or self.cached > CACHED_BYTES:
            oldest, forgotten = self.cache.popitem(last=False)
            self.cached -= len(oldest) + len(forgotten)

    async def close(self) -> None:
        """End every process, and wait until it has ended."""
        for worker in self.workers:
            process = worker.process
            worker.kill()
            if process is not None:
                await process.wait()
