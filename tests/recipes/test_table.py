"""README.md and docs/pipelines.md show the measurements of the shipped models."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    sys.modules.pop("table", None)
    return importlib.import_module("table")


def test_the_pages_are_up_to_date(recipe: ModuleType) -> None:
    for page in recipe.PAGES:
        text = page.read_text(encoding="utf-8")
        assert f"{recipe.BEGIN}\n{recipe.table()}\n{recipe.END}" in text, f"{page.name}: run recipes/table.py"
    assert [line.split(" | ")[0] for line in recipe.table().splitlines()[2:]] == [
        f"| {name}" for name in ("digits", "objects", "translator", "listener", "writer", "finder")
    ]


def test_a_page_without_a_place_for_it(recipe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text("no table here")
    monkeypatch.setattr(recipe, "PAGES", (tmp_path / "page.md",))
    with pytest.raises(SystemExit, match=r"page\.md has no"):
        recipe.main()
    (tmp_path / "page.md").write_text(f"a {recipe.BEGIN} old {recipe.END} b")
    recipe.main()
    assert (tmp_path / "page.md").read_text() == f"a {recipe.BEGIN}\n{recipe.table()}\n{recipe.END} b"


def test_every_number_has_words(recipe: ModuleType) -> None:
    assert recipe.quality({"accuracy": 0.993, "images": 10}) == "accuracy 99.30 %"
    assert recipe.quality({"wer": 0.25}) == "word error rate 25.0 %"
    with pytest.raises(SystemExit, match="no metric known"):
        recipe.quality({"beauty": 1})
