from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from embed_data import CHOICES, TERMS, _pairs, _pictures, _speech, embed, pack
from PIL import Image

from glassformer.data.sources import DATASETS, unpack
from glassformer.data.sources.opening import HERE, embedded
from glassformer.data.sources.split import PARTS, plain


def test_every_archive_has_its_recipe() -> None:
    assert sorted(CHOICES) == list(embedded())


def test_every_card_quotes_the_licence() -> None:
    for name in CHOICES:
        licence = DATASETS[name].licence
        card = (HERE / f"{name}.md").read_text(encoding="utf-8")
        assert f"Licence: {licence}\n\n{TERMS[licence]}\n" in card


def test_the_same_files_are_the_same_bytes() -> None:
    files = {"b.txt": b"two", "a/c.txt": b"one"}
    assert pack(files) == pack(dict(reversed(files.items())))


def test_the_archive_and_its_card(own: Path, tmp_path: Path) -> None:
    folder = unpack("librivox")
    made = embed("librivox", folder, tmp_path)
    with tarfile.open(made) as packed:
        assert set(packed.getnames()) == {str(path.relative_to(folder)) for path in folder.rglob("*.*")}
        packed.extractall(tmp_path / "again", filter="data")
    for part in PARTS:
        assert (tmp_path / "again" / f"{part}.tsv").read_bytes() == (folder / f"{part}.tsv").read_bytes()
    for path in (folder / "audio").iterdir():
        assert np.array_equal(soundfile.read(path)[0], soundfile.read(tmp_path / "again" / "audio" / path.name)[0])
    assert (tmp_path / "librivox.md").read_text() == (HERE / "librivox.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moby-dick", "uci-digits"])
def test_made_anew_from_its_folder(name: str, own: Path, tmp_path: Path) -> None:
    """What is embedded whole gives its own archive back."""
    made = embed(name, unpack(name), tmp_path)
    assert lzma.decompress(made.read_bytes()) == lzma.decompress((HERE / f"{name}.tar.xz").read_bytes())
    assert (tmp_path / f"{name}.md").read_text() == (HERE / f"{name}.md").read_text()


def test_so_many_of_each_class(own: Path) -> None:
    folder = unpack("uci-digits")
    files = _pictures(folder, each={"train": 3, "test": 1})
    assert len(files) == 40
    for name, data in list(files.items())[:5]:
        assert len(data) > 64  # not compressed: the archive does that
        with Image.open(folder / name) as picture:
            assert np.asarray(picture).shape == (8, 8)


def test_sentences_stay_whole(own: Path) -> None:
    folder = unpack("tatoeba-en-fr")
    files = _pairs(folder, most=dict.fromkeys(PARTS, 100))
    for part in PARTS:
        whole = (folder / f"{part}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        some = files[f"{part}.tsv"].decode().split("\n")[:-1]
        assert 90 < len(some) <= 100
        kept = {plain(line.split("\t")[0]) for line in some}
        assert some == [line for line in whole if plain(line.split("\t")[0]) in kept]


def test_so_many_seconds(own: Path) -> None:
    folder = unpack("librivox")
    files = _speech(folder, seconds={"train": 6.0, "valid": 0.0, "test": 60.0})
    rows = {part: files[f"{part}.tsv"].decode().splitlines()[1:] for part in PARTS}
    assert len(rows["train"]) < 3
    assert rows["valid"] == []
    assert len(rows["test"]) == 1
