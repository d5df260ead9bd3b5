"""WebDataset shards, written by the webdataset library itself."""

from __future__ import annotations

import gc
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset
from PIL import Image

import glassformer as gf
from glassformer.data import Images, Recordings
from glassformer.data.rows import open_rows
from glassformer.data.webdataset import Shards, expand_braces, is_shard, matching
from glassformer.errors import InputError


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def write(folder: Path, name: str, samples: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    with webdataset.TarWriter(str(folder / name)) as sink:
        for sample in samples:
            sink.write(sample)
    return folder / name


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for shard in range(3):
        rows = [{"__key__": f"{shard}-{i}", "png": png(10 * shard + i), "cls": i % 2} for i in range(7)]
        write(tmp_path / "data", f"train-{shard:04d}.tar", rows)
    return tmp_path / "data"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the library leaves its files to the garbage collector
def test_examples_equal_those_of_the_library(shards: Path) -> None:
    ours = Images.open(shards)
    files = [str(path) for path in sorted(shards.iterdir())]
    theirs = list(webdataset.WebDataset(files, shardshuffle=False).decode("l8").to_tuple("png", "cls"))
    gc.collect()
    assert len(ours) == len(theirs) == 21
    for i, (pixels, label) in enumerate(theirs):
        assert np.array_equal(ours.image(i)[0].numpy(), pixels)
        assert ours.labels[ours.label(i)] == str(label)


def test_nothing_is_unpacked_and_images_are_not_read_to_list_them(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    before = {path: path.stat().st_size for path in shards.iterdir()}
    reader = Shards(sorted(shards.iterdir()))
    assert all(row["image"]["bytes"] is None for row in reader.scan() if isinstance(row, dict))
    assert reader.read(20)["image"]["bytes"] == png(26)
    assert {path: path.stat().st_size for path in shards.iterdir()} == before
    assert not (tmp_path / "cache" / "archives").exists()


def test_recordings_and_fields_of_json(tmp_path: Path) -> None:
    import soundfile

    sound = io.BytesIO()
    soundfile.write(sound, 0.1 * np.sin(np.arange(16000) / 9), 16000, format="flac")
    rows = [{"__key__": f"a/{i}", "flac": sound.getvalue(), "json": {"text": f"word {i}", "age": 3}} for i in range(4)]
    data = Recordings.open(write(tmp_path / "speech", "clips.tar", rows))
    assert [data.sentence(i) for i in range(4)] == [f"word {i}" for i in range(4)]
    assert data.wave(3).shape == (16000,)
    assert "not used" in data.rows.described()


def test_patterns(shards: Path) -> None:
    named = [shards / f"train-{i:04d}.tar" for i in range(3)]
    assert matching(f"{shards}/train-{{0000..0002}}.tar") == named
    assert matching(f"{shards}/train-*.tar") == named
    assert matching(f"{shards}/train-{{0000,0002}}.tar") == [named[0], named[2]]
    assert matching(f"{shards}/{{train,train}}-000[01].t?r") == [*named[:2], *named[:2]]
    assert matching(f"{shards}/none-*.tar") == matching("photos/") == []
    assert expand_braces("a{08..10}-{x,y}{1}") == [f"a{n}-{c}{{1}}" for n in ("08", "09", "10") for c in "xy"]
    assert expand_braces("{2..0}") == ["2", "1", "0"]
    for many in ("{0..9999999}", "{0..999}{0..999}{0..9}"):
        with pytest.raises(InputError, match="more than 1,000,000 files"):
            expand_braces(many)
    with pytest.raises(InputError, match="does not exist"):
        matching(f"{shards}/train-{{0000..0005}}.tar")


def test_other_archives_are_not_shards(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "classes.tar", "w") as archive:
        for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
            member = tarfile.TarInfo(name)
            member.size = len(png(0))
            archive.addfile(member, io.BytesIO(png(0)))
    assert not is_shard(tmp_path / "classes.tar")
    assert not is_shard(tmp_path)
    assert Images.open(tmp_path / "classes.tar").labels == ("cat", "dog")


def test_broken_shards(shards: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar"
    for size in (1536, 2500, 4096):
        cut.write_bytes((shards / "train-0000.tar").read_bytes()[:size])
        with pytest.raises(InputError, match="not a complete tar file"):
            Shards([cut])
    rows = [{"__key__": str(i), "png": png(i), "cls": 0} for i in range(5)] + [{"__key__": "x", "png": png(1)}]
    images = open_rows(write(tmp_path / "some", "some.tar", rows), ("image", "label"))
    assert len(images) == 6
    assert images[5]["label"] is None


def test_training_on_shards_equals_training_on_folders(shards: Path, tmp_path: Path) -> None:
    reader = Shards(sorted(shards.iterdir()))
    for i in range(len(reader)):
        row = reader.read(i)
        place = tmp_path / "folders" / row["label"]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i:02d}.png").write_bytes(row["image"]["bytes"])
    same = {"arch": "mlp", "steps": 3, "batch_size": 21, "augment": False, "progress": False}
    one = gf.train("classify", f"{shards}/train-{{0000..0002}}.tar", val=str(shards), **same)
    other = gf.train("classify", str(tmp_path / "folders"), val=str(tmp_path / "folders"), **same)
    assert one.metrics.keys() == other.metrics.keys()
    for name, value in one.metrics.items():
        assert value == pytest.approx(other.metrics[name], abs=1e-4), name
    assert all(torch.isfinite(weight).all() for weight in one.model.parameters())
