"""Recipes are scripts: tests load them as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


sys.path.insert(0, str(RECIPES))  # its modules import one another by their plain names


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A recipe as a module, as it is when it runs as a script."""
    monkeypatch.syspath_prepend(str(RECIPES))

    def named(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return named


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def own(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, in which embedded datasets are unpacked once per run."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(unpacked))
    return unpacked
