from __future__ import annotations

import tarfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import soundfile
from PIL import Image

from glassformer.data.sources import DATASETS, embedded, open_data, opening, unpack
from glassformer.data.sources.opening import HERE
from glassformer.data.sources.split import PARTS, plain
from glassformer.errors import InputError


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_what_is_embedded() -> None:
    names = "asterisk-en fashion-mnist librivox moby-dick shakespeare tatoeba-en-fr uci-digits"
    assert list(embedded()) == names.split()
    assert embedded()["moby-dick"] == "the whole dataset"
    assert "cifar10" not in embedded()  # its makers have not said under which licence


@pytest.mark.parametrize("name", embedded())
def test_small_and_with_its_licence(name: str) -> None:
    archive = HERE / f"{name}.tar.xz"
    assert archive.stat().st_size < 3_000_000
    card = (HERE / f"{name}.md").read_text(encoding="utf-8")
    assert f"Licence: {DATASETS[name].licence}\n" in card
    assert DATASETS[name].origin in card
    with tarfile.open(archive) as packed:
        first = packed.next()
        assert first is not None
        assert first.name == "ORIGIN.md"
        inside = packed.extractfile(first)
        assert inside is not None
        assert inside.read().decode() == card


def test_digits(own: Path) -> None:
    folder = open_data("uci-digits")
    paths = list(folder.rglob("*.png"))
    assert Counter(path.parts[-3] for path in paths) == {"train": 1451, "test": 346}
    assert {path.parts[-2] for path in paths} == set("0123456789")
    with Image.open(paths[0]) as picture:
        assert (picture.size, picture.mode) == ((8, 8), "L")


def test_clothes_without_unpacking() -> None:
    with tarfile.open(HERE / "fashion-mnist.tar.xz") as packed:
        names = [name.split("/") for name in packed.getnames() if name.endswith(".png")]
        with Image.open(packed.extractfile("/".join(names[0]))) as picture:  # type: ignore[arg-type]
            assert (picture.size, picture.mode) == ((28, 28), "L")
    count = Counter((part, label) for part, label, _ in names)
    assert len({label for _, label in count}) == 10
    assert {part: {n for (p, _), n in count.items() if p == part} for part in ("train", "test")} == {
        "train": {420},
        "test": {80},
    }


def test_pairs_name_who_wrote_them_and_no_sentence_is_in_two_parts(own: Path) -> None:
    folder = open_data("tatoeba-en-fr")
    found = {part: lines(folder / f"{part}.tsv") for part in PARTS}
    assert [len(found[part]) for part in PARTS] == [23_000, 1_000, 1_000]
    for row in chain(*found.values()):
        assert len(row) == 3
        assert row[2].startswith("CC-BY 2.0 (France) Attribution: tatoeba.org #")
    said = [{plain(row[0]) for row in found[part]} for part in PARTS]
    assert sum(map(len, said)) == len(set.union(*said))


@pytest.mark.parametrize(("name", "rate", "seconds"), [("asterisk-en", 8000, 240), ("librivox", 16000, 24.7)])
def test_speech(own: Path, name: str, rate: int, seconds: float) -> None:
    folder = open_data(name)
    rows = []
    for part in PARTS:
        header, *some = lines(folder / f"{part}.tsv")
        assert header == ["path", "sentence"]
        rows += some
    assert len({path for path, _ in rows}) == len(rows) == len(list((folder / "audio").iterdir()))
    infos = [soundfile.info(folder / path) for path, _ in rows]
    assert {info.samplerate for info in infos} == {rate}
    assert abs(sum(info.duration for info in infos) - seconds) < 5
    assert all(plain(sentence) for _, sentence in rows)


@pytest.mark.parametrize(("name", "size"), [("moby-dick", 1_204_997), ("shakespeare", 5_057_317)])
def test_text(own: Path, name: str, size: int) -> None:
    folder = open_data(name)
    parts = [(folder / f"{part}.txt").read_bytes() for part in PARTS]
    assert sum(map(len, parts)) == size
    for part in parts:
        part.decode()
        assert len(part) > 0.03 * size


def test_the_whole_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    part = open_data("librivox")
    assert part.parent == tmp_path / "embedded"
    assert open_data("librivox") == part
    assert [path.name for path in part.parent.iterdir()] == [part.name]  # nothing half made
    (tmp_path / "librivox").mkdir()
    assert open_data("librivox") == tmp_path / "librivox"
    assert unpack("librivox") == part


def test_four_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unpacks for itself; one folder appears, and the others take it."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    all_have = Barrier(4)
    appear = opening._appear

    def together(whole: Path, folder: Path) -> None:
        all_have.wait(timeout=30)
        appear(whole, folder)

    monkeypatch.setattr(opening, "_appear", together)
    with ThreadPoolExecutor(4) as pool:
        (folder,) = set(pool.map(unpack, ["librivox"] * 4))
    assert len(list(folder.rglob("*.flac"))) == 5
    assert list(folder.parent.iterdir()) == [folder]


def test_names_that_are_none(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    fact = "there is no dataset 'imagenet': choose one of mnist, fashion-mnist"
    refused(InputError, fact, lambda: open_data("imagenet"))
    refused(InputError, "there is no dataset 'stories15m'", lambda: open_data("stories15m"))
    fact = "cifar10 is neither downloaded nor embedded: run glassformer data fetch cifar10"
    refused(InputError, fact, lambda: open_data("cifar10"))
    refused(InputError, "no part of enwik8 is embedded: choose one of asterisk-en", lambda: unpack("enwik8"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "file"))
    refused(InputError, f"{tmp_path / 'file' / 'embedded'}", lambda: unpack("librivox"))
