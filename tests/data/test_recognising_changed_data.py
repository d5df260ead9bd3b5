"""A copy is the same data, whenever and wherever it was made; a letter, a name or a picture more is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from glassformer.data import Images, Pairs, Recordings, Text, blocks, bpe, fingerprint
from glassformer.data.faults import Fault
from glassformer.data.fingerprint import of_blocks, of_images, of_recordings, of_rows, of_tokenizer


def copied(folder: Path, where: Path) -> Path:
    shutil.copytree(folder, where)
    for path in where.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return where


def test_rows() -> None:
    def row(i: int) -> str:
        if i == 1:
            raise Fault("gone", "line 2")
        return "abc"[i]

    assert of_rows(3, row) == {"count": 3, "contents": of_rows(2, "ac".__getitem__)["contents"]}
    assert of_rows(2, ["a", "bc"].__getitem__) != of_rows(2, ["ab", "c"].__getitem__)


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, shade in (("a/1", 10), ("a/2", 20), ("b/1", 30)):
        (tmp_path / "one" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(tmp_path / "one" / f"{name}.png")
    first = of_images(Images.open(tmp_path / "one"))
    assert first["count"] == 3
    assert first["shape"] == [1, 4, 4]
    other = copied(tmp_path / "one", tmp_path / "other")
    assert of_images(Images.open(other)) == first
    pixels = np.random.default_rng(0).integers(0, 255, (4, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(other / "a/2.png")  # less even, so longer
    assert of_images(Images.open(other))["contents"] != first["contents"]
    monkeypatch.setattr(fingerprint, "FILES", 1)  # the first alone
    assert of_images(Images.open(other)) == of_images(Images.open(tmp_path / "one"))
    (other / "a/2.png").rename(other / "a/3.png")
    assert of_images(Images.open(other)) != of_images(Images.open(tmp_path / "one"))
    assert of_images(Images.open(other, size=2))["shape"] == [1, 2, 2]


def test_recordings(tmp_path: Path) -> None:
    def written(where: Path, seconds: float, said: str) -> Recordings:
        where.mkdir()
        soundfile.write(where / "a.wav", np.zeros(int(16_000 * seconds)), 16_000)
        (where / "t.tsv").write_text(f"path\tsentence\na.wav\t{said}\n")
        return Recordings.open(where / "t.tsv")

    first = of_recordings(written(tmp_path / "a", 0.5, "hello"))
    assert of_recordings(written(tmp_path / "b", 0.5, "hello")) == first
    assert of_recordings(written(tmp_path / "c", 0.6, "hello")) != first
    assert of_recordings(written(tmp_path / "d", 0.5, "hullo")) != first


def test_text_and_its_tokenizer(tmp_path: Path) -> None:
    text = "".join(f"the cat {i} sat on the mat\n" for i in range(50))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text(text.replace("cat 7", "dog 7"))
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    tokenizer = bpe.train([text], 300)
    made = lambda name: of_blocks(blocks(Text.open(tmp_path / name), tokenizer, 8, tmp_path / "ids"))
    assert made("a.txt") == made("a.txt") != made("b.txt")
    assert of_tokenizer(bpe.train([text], 300)) == of_tokenizer(tokenizer) != of_tokenizer(bpe.train([text], 299))
    pairs = Pairs.open(tmp_path / "a.tsv")
    assert of_rows(len(pairs), pairs.pair) == of_rows(2, [("a", "b"), ("c", "d")].__getitem__)
