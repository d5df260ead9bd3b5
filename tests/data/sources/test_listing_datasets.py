from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.data.registry import WEIGHTS
from glassformer.data.sources import DATASETS, ITEMS, fetch
from glassformer.errors import InputError


def test_one_table_of_weights_and_datasets() -> None:
    assert ITEMS.keys() == WEIGHTS.keys() | DATASETS.keys() | {"pyodide"}
    assert not WEIGHTS.keys() & DATASETS.keys()
    names = "mnist fashion-mnist cifar10 uci-digits tatoeba-en-fr tatoeba-en-es asterisk-en librivox moby-dick"
    assert DATASETS.keys() == {*names.split(), "shakespeare", "enwik8"}


def test_pins_are_complete() -> None:
    for item in DATASETS.values():
        assert item.licence
        assert item.origin
        assert item.about
        for package in item.packages:
            assert len(bytes.fromhex(package.sha256)) == 32
            assert package.version
            assert package.megabytes


def test_an_unknown_name(refused: Any) -> None:
    fact = "there is no dataset or model 'imagenet' to fetch: choose one of all-minilm-l6-v2"
    refused(InputError, fact, lambda: fetch("imagenet"))


@pytest.mark.slow
def test_the_clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    folder = fetch("librivox")
    assert len(list((folder / "audio").glob("*.wav"))) == 5
    assert len((folder / "transcription").read_text().splitlines()) == 5
