"""A small objective that is exact to repeat, and other processes to train it in."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture(autouse=True)
def undrawn(undrawn: None) -> None:
    """Runs are saved without their pictures; the tests of reports draw them."""


@pytest.fixture(scope="session")
def child() -> ModuleType:
    """The objective, the model and the plan that other processes train, here."""
    spec = importlib.util.spec_from_file_location("training_child", CHILD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["training_child"] = module  # so that its classes pickle
    spec.loader.exec_module(module)
    return module


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., str]:
    """`launch("jobs", "arg", world=2)`: the child in so many processes that know of each other; what the first says."""

    def run(*arguments: str, world: int = 1, code: int = 0, **more: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-W", "error", str(CHILD), *arguments]
        started, files = [], []
        for rank in range(world):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)} if world > 1 else {}
            env = environment(**place, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
            out, err = tmp_path / f"said-{rank}.out", tmp_path / f"said-{rank}.err"
            with out.open("w") as o, err.open("w") as e:  # files, for a pipe that nobody reads yet fills up
                started.append(subprocess.Popen(command, env=env, stdout=o, stderr=e))
            files.append((out, err))
        end = time.monotonic() + 300
        try:
            for process in started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))
        finally:
            for process in started:
                process.kill()
        codes = [process.wait() for process in started]
        said = [(out.read_text(), err.read_text()) for out, err in files]
        assert codes == [code] * world, "\n".join(f"{o}\n{e}" for o, e in said)
        return said[0][0] if code == 0 else said[0][1]

    return run
