"""Shapes are checked in every test, hypothesis is deterministic, and golden files have one way to be rewritten."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook
from PIL import Image

from glassformer.errors import GlassError

# Before anything imports them: the annotations of core and nn become checks.
install_import_hook(["glassformer.core", "glassformer.nn"], "beartype.beartype")

# Collecting the tests makes many objects and no garbage: none of them is looked at by later garbage collections.
gc.disable()

FIXTURES = ("browser", "command_line", "shapes", "streams", "text_models")


def pytest_configure(config: pytest.Config) -> None:
    """Load the shared fixtures, except in the process of `-n 2` that only distributes the tests."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        for name in FIXTURES:
            config.pluginmanager.import_plugin(f"fixtures.{name}")


settings.register_profile("glassformer", deadline=None, derandomize=True, print_blob=True, max_examples=20)
settings.register_profile("thorough", settings.get_profile("glassformer"), max_examples=300)
settings.load_profile(os.environ.get("GLASSFORMER_PROFILE", "glassformer"))


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`@pytest.mark.variants(4)`: four variants of a parametrised test are fast, and the others are slow.

    They are spread over the variants by the golden ratio, so that they do not all have the same value of a parameter.
    """
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("variants")
        if marker is not None and item.get_closest_marker("slow") is None:
            groups.setdefault((item.nodeid.partition("[")[0], marker.args[0]), []).append(item)
    for (_, fast), group in groups.items():
        for i in sorted(range(len(group)), key=lambda i: i * 0.6180339887 % 1)[fast:]:
            group[i].add_marker("slow")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """`golden("name.txt", text)`: the same as the file, which `make golden` rewrites. Mark such a test `golden`."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("GLASSFORMER_GOLDEN") == "rewrite":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {name}: run make golden"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: if that is meant, run make golden"

    return compare


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are built but not rasterised, which takes longer than the training run of a test."""
    monkeypatch.setattr("glassformer.figures.style._drawn", lambda figure, dpi: Image.new("RGB", (1, 1)))


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users run: without the checks of annotations, which know neither our errors nor a compiler's symbols."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def refused(unchecked: None) -> Callable[[type[GlassError], str, Callable[[], object]], None]:
    """`refused(ShapeError, "fact: remedy", lambda: …)`: what a user's mistake says, in one line."""

    def check(kind: type[GlassError], text: str, do: Callable[[], object]) -> None:
        with pytest.raises(kind) as caught:
            do()
        assert caught.type is kind
        assert str(caught.value).startswith(text), str(caught.value)
        assert "\n" not in str(caught.value)

    return check
