from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import run


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_run_is_kept_by_parameters_and_seed() -> None:
    first, again, other, seeded = run(7), run(7), run(7, alpha=3.0), run(7, seed=1)
    assert not first.cached
    assert again.cached
    assert again[:5] == first[:5]
    assert not other.cached
    assert not seeded.cached
    assert other.result["alpha"] == 3


def test_without_the_cache_nothing_is_kept(tmp_path: Path) -> None:
    assert not run(7, keep=False).cached
    assert not list(tmp_path.rglob("*.json"))


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    run(7, keep=False)
    assert torch.get_num_threads() == before


def test_how_to_repeat_it() -> None:
    outcome = run(7, seed=2, alpha="3", queries=20)
    assert outcome.command == "glassformer lab 7 --set queries=20 --set alpha=3.0 --seed 2"
    scope: dict[str, object] = {}
    exec(outcome.code, scope)  # the page's own promise
    assert scope["outcome"][3] == outcome.result  # type: ignore[index]
