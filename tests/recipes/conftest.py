"""Recipes are scripts: tests load them as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A recipe as a module, as it is when it runs as a script."""
    monkeypatch.syspath_prepend(str(RECIPES))

    def named(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return named
