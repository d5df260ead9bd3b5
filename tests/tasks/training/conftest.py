"""A small lesson that is exact to repeat, and other processes to train it in."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture(scope="session")
def child() -> ModuleType:
    """The lesson, the model and the plan that other processes train, here."""
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
def launch() -> Callable[..., str]:
    """`launch("jobs", "arg", world=2)`: the child in so many processes that know of each other; what the first says."""

    def run(*arguments: str, world: int = 1, code: int = 0, **more: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-W", "error", str(CHILD), *arguments]
        started = []
        for rank in range(world):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)} if world > 1 else {}
            env = environment(**place, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            started.append(subprocess.Popen(command, env=env, **pipes))  # type: ignore[call-overload]
        try:
            said = [process.communicate(timeout=600) for process in started]
        finally:
            for process in started:
                process.kill()
        for process, (out, err) in zip(started, said, strict=True):
            assert process.returncode == code, f"{out}\n{err}"
        return said[0][0] if code == 0 else said[0][1]

    return run
