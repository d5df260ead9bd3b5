"""Work of models ends with its client."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from glassformer.errors import InputError
from glassformer.runtime import precision_of
from glassformer.server.jobs import Abandoned, Job
from glassformer.server.models import Models
from glassformer.server.settings import Limits, Settings


def forever() -> None:
    while True:
        time.sleep(0.001)


def request(gone_after: float) -> Request:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(gone_after)
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


def run(coroutine: Coroutine[Any, Any, int]) -> int:
    """In a thread of its own: a browser of other tests may keep the event loop of this one running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def test_work_is_not_ended_in_the_middle_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was imported in part would fail every later request."""
    source = "import time\nfor _ in range(300):\n    time.sleep(0.001)\ncomplete = True\n"
    (tmp_path / "slowly_imported.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    began = threading.Event()

    def work() -> None:
        began.set()
        importlib.import_module("slowly_imported")
        forever()

    job = Job(work)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(job)
        began.wait()
        time.sleep(0.05)
        job.abandon()
        assert isinstance(future.exception(30), Abandoned)
    assert sys.modules["slowly_imported"].complete


def test_models_are_loaded_in_the_precision_of_the_settings() -> None:
    models = Models(Settings(precision="int8"))
    try:
        assert precision_of(models.model("digits")) == "int8"
    finally:
        models.close()


def test_work_of_clients_that_went_away_frees_its_threads() -> None:
    async def use() -> int:
        models = Models(Settings())
        for _ in range(4):  # twice as many as there are threads
            with pytest.raises(HTTPException, match="client disconnected"):
                await models.run(request(0.05), forever)
        try:
            return await asyncio.wait_for(models.run(request(60), lambda: 1), 30)
        finally:
            models.close()

    assert run(use()) == 1


def test_work_that_takes_too_long_is_refused_with_the_limit_and_ended() -> None:
    async def use() -> int:
        models = Models(Settings(limits=Limits(model_seconds=0.5)))
        models.imported(lambda: 1)  # importing torch would take longer than the limit
        for _ in range(2):
            with pytest.raises(InputError, match=r"longer than 0\.5 seconds"):
                await models.run(request(60), forever)
        try:
            return await asyncio.wait_for(models.run(request(60), lambda: 1), 30)
        finally:
            models.close()

    assert run(use()) == 1
