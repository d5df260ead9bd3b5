from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.lab import cache


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_stored_results_are_restored() -> None:
    assert cache.load(1, {"n": 2}, 0) is None
    cache.store(1, {"n": 2}, 0, {"x": [1.5]}, 0.25)
    assert cache.load(1, {"n": 2}, 0) == ({"x": [1.5]}, 0.25)
    assert cache.load(1, {"n": 3}, 0) is None
    assert cache.load(1, {"n": 2}, 1) is None


def test_another_version_is_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(1, {}, 0, {}, 0.0)
    monkeypatch.setattr(cache, "version", lambda: "another")
    assert cache.load(1, {}, 0) is None


def test_a_broken_file_is_measured_again() -> None:
    cache.store(1, {}, 0, {}, 0.0)
    cache.place(1, {}, 0).write_text("{", encoding="utf-8")
    assert cache.load(1, {}, 0) is None


def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.store(1, {}, 0, {}, 0.0)
    assert cache.load(1, {}, 0) is None
