"""A cache of its own for every run, and packages as the registries have them, made small."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for what is unpacked: seven archives, once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def own(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_DATA", str(place))
    return place


@pytest.fixture
def tarred(tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    def make(files: dict[str, bytes]) -> Path:
        path = tmp_path / "package.tgz"
        with tarfile.open(path, "w:gz") as packed:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                packed.addfile(member, io.BytesIO(data))
        return path

    return make
