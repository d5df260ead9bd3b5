from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.data.faults import Fault
from glassformer.data.images import Images
from glassformer.errors import InputError


def draw(path: Path, seed: int, size: tuple[int, int] = (6, 8), mode: str = "RGB") -> np.ndarray[Any, Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if mode == "L" else (*size, len(mode))
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for k, name in enumerate(("dog", "cat", "bird")):
        for i in range(3):
            draw(tmp_path / name / f"{i}.png", 10 * k + i)
    return tmp_path


def test_a_folder_for_each_class(folder: Path) -> None:
    draw(folder / "cat" / "more" / "deep.PNG", 99)
    (folder / "cat" / "notes.txt").write_text("not an image")
    (folder / "cat" / ".hidden.png").write_text("nor this")
    draw(folder / ".thumbnails" / "x.png", 1)
    images = Images.open(folder)
    assert images.labels == ("bird", "cat", "dog")
    assert len(images) == 10
    assert [images.label(i) for i in range(10)] == [0] * 3 + [1] * 4 + [2] * 3
    for i in range(10):
        expected = np.asarray(Image.open(folder / images.files[i]))
        for _ in range(2):  # read, and kept
            torch.testing.assert_close(images.image(i), torch.tensor(expected).permute(2, 0, 1))
    assert images.shape == (3, 6, 8)
    assert not len(images.faults)


def test_labels_that_are_numbers_stand_in_their_order(tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        draw(tmp_path / name / "a.png", 0, mode="L")
    images = Images.open(tmp_path)
    assert images.labels == ("1", "9", "10")
    assert images.shape == (1, 6, 8)


def test_the_classes_of_a_set_opened_before(folder: Path, refused: Any) -> None:
    for name in ("cat", "bird"):
        draw(folder / "test" / name / "a.png", 0)
    labels = ("bird", "cat", "dog")
    images = Images.open(folder / "test", labels=labels)
    assert images.labels == labels
    assert [images.label(i) for i in range(2)] == [0, 1]
    text = f"{folder / 'test'} has the class 'bird', which is not one of cat, dog: leave it out"
    refused(InputError, text, lambda: Images.open(folder / "test", labels=["cat", "dog"]))


def test_some_rows(folder: Path) -> None:
    images = Images.open(folder, size=(5, 4), channels=1)
    part = images.part(np.array([8, 0]))
    assert len(part) == 2
    assert (part.labels, part.shape) == (images.labels, images.shape)
    assert [part.label(i) for i in range(2)] == [2, 0]
    assert torch.equal(part.image(0), images.image(8))


@pytest.mark.parametrize(("table", "own", "other"), [("trainLabels", "train", "test"), ("test", "test", "train")])
def test_files_of_one_split_are_not_those_of_another(tmp_path: Path, table: str, own: str, other: str) -> None:
    """On Kaggle, train/7.png and test/7.png may be different images, and either may be missing."""
    (tmp_path / f"{table}.csv").write_text("id,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(8)))
    mine = {i: draw(tmp_path / own / f"{i}.png", i) for i in range(6)}
    for i in range(7):
        draw(tmp_path / other / f"{i}.png", 100 + i)
    images = Images.open(tmp_path / f"{table}.csv")
    assert images.faults.summary() == ["missing image: 2 (6, 7)"]
    assert all(torch.equal(images.image(i).movedim(0, -1), torch.tensor(mine[i])) for i in range(6))


def test_channels_and_sizes(folder: Path) -> None:
    draw(folder / "cat" / "a.png", 5, size=(20, 10), mode="RGBA")
    draw(folder / "cat" / "b.png", 5, size=(20, 10), mode="L")
    images = Images.open(folder, size=(4, 5), channels=1)
    assert images.shape == (1, 4, 5)
    assert {tuple(images.image(i).shape) for i in range(len(images))} == {(1, 4, 5)}
    at = [images.files[i] for i in range(len(images))].index("dog/0.png")
    expected = Image.open(folder / "dog" / "0.png").convert("L").resize((5, 4), Image.Resampling.BILINEAR)
    assert torch.equal(images.image(at)[0], torch.tensor(np.asarray(expected)))
    own = Images.open(folder)
    assert {tuple(own.image(i).shape) for i in range(len(own))} == {(3, 6, 8), (3, 20, 10)}
    assert tuple(Images.open(folder, size=7).image(0).shape) == (3, 7, 7)


def test_an_image_is_read_once_and_given_as_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images.open(folder)
    first = images.image(2)
    first += 1
    for file in folder.rglob("*.png"):
        file.unlink()
    torch.testing.assert_close(images.image(2), first - 1)
    with pytest.raises(Fault, match="missing image"):
        images.image(3)


def test_without_room_nothing_is_kept(folder: Path) -> None:
    images = Images.open(folder, keep=9 * 3 * 6 * 8 - 1)
    assert images.cache is None
    images.image(0)
    (folder / images.files[0]).unlink()
    with pytest.raises(Fault, match="missing image"):
        images.image(0)


def look(images: Images, i: int) -> None:
    images.image(i)


def test_forked_workers_share_what_was_read(folder: Path) -> None:
    images = Images.open(folder)
    worker = multiprocessing.get_context("fork").Process(target=look, args=(images, 4))
    worker.start()
    worker.join()
    (folder / images.files[4]).unlink()
    assert images.image(4).shape == (3, 6, 8)
    other = pickle.loads(pickle.dumps(images))
    assert torch.equal(other.image(5), images.image(5))
    assert len(pickle.dumps(images)) < 10_000, "pixels do not travel"


def test_broken_ones_are_faults(folder: Path) -> None:
    last = sorted((folder / "cat").iterdir())[-1]
    for broken in (folder / "bird" / "0.png", last):
        broken.write_bytes(b"not an image")
    whole = (folder / "cat" / "0.png").read_bytes()
    (folder / "cat" / "0.png").write_bytes(whole[: len(whole) // 2])
    images = Images.open(folder)
    known = f"bird/0.png, cat/{last.name}"
    assert images.faults.summary() == [f"unreadable image: 2 ({known})"], "by their headers"
    assert len(images) == 7, "these two are left out"
    rows = images.faults.each(range(7), images.image)
    assert len(rows) == 6
    assert images.faults.summary() == [f"unreadable image: 3 ({known}, cat/0.png)"], "one ends early"


def test_sixteen_bits_are_scaled(folder: Path) -> None:
    deep = np.array([[0, 257, 30_000, 65_535]], dtype=np.uint16)
    Image.fromarray(deep).save(folder / "dog" / "deep.png")
    Image.fromarray(deep.astype(np.int32)).save(folder / "dog" / "deep.tif")
    Image.fromarray(np.full((1, 4), 70_000, dtype=np.int32)).save(folder / "dog" / "more.tif")
    images = Images.open(folder, channels=1)
    at = {images.files[i]: i for i in range(len(images))}
    for name in ("dog/deep.png", "dog/deep.tif"):
        assert images.image(at[name]).flatten().tolist() == [0, 1, 117, 255]
    with pytest.raises(Fault, match="unreadable image"):
        images.image(at["dog/more.tif"])


def test_a_table_of_paths_and_labels(folder: Path) -> None:
    text = '\ufefffile;Label;note\r\ndog/0.png;Hund;"a; b"\r\n\r\ncat/0.png;Katze;\r\ncat/1.png;;x\r\ncat/2.png\r\n'
    text += "dog/1.png;Hund;x\r\ngone.png;Katze;x\r\n"
    (folder / "list.csv").write_text(text, encoding="utf-8", newline="")
    images = Images.open(folder / "list.csv")
    assert images.labels == ("Hund", "Katze")
    assert [images.files[i] for i in range(len(images))] == ["dog/0.png", "cat/0.png", "dog/1.png"]
    assert images.targets.tolist() == [0, 1, 0]
    told = ["empty line: 1 (list.csv line 3)", "empty path or label: 1 (list.csv line 5)"]
    told += ["wrong number of columns (not 3): 1 (list.csv line 6)", "missing image: 1 (gone.png)"]
    assert images.faults.summary() == told, "before any image is read"


def test_a_format_that_cannot_be_decoded_is_reported(folder: Path) -> None:
    for name in ("IMG_1.HEIC", "logo.svg"):
        (folder / "cat" / name).write_bytes(b"\0\0\0\x18ftypheic" * 40)
    found = " ".join(Images.open(folder).faults.summary())
    assert "cat/IMG_1.HEIC" in found
    assert "cat/logo.svg" in found


def test_what_is_refused(folder: Path, tmp_path: Path, refused: Any) -> None:
    table = tmp_path / "x.csv"
    table.write_text("image,kind,colour\na.png,1,2\n")
    says = f"{table} has no column for label among image, kind, colour: give them with --columns, as in image=image,"
    refused(InputError, says, lambda: Images.open(table))
    table.write_text("path,label\n\n\n\n")
    refused(InputError, "3 of 3 cannot be used, most of them because of empty line", lambda: Images.open(table))
    table.write_text("")
    refused(InputError, f"{table} is empty: give", lambda: Images.open(table))
    refused(InputError, f"there is no {tmp_path / 'gone'}", lambda: Images.open(tmp_path / "gone"))
    (tmp_path / "empty" / "a").mkdir(parents=True)
    refused(InputError, f"{tmp_path / 'empty'} has no images: put", lambda: Images.open(tmp_path / "empty"))
    draw(tmp_path / "one" / "a" / "a.png", 0)
    refused(InputError, f"{tmp_path / 'one'} has only the class 'a': give", lambda: Images.open(tmp_path / "one"))
    for part in ("train", "test"):
        draw(tmp_path / "parts" / part / "a" / "a.png", 0)
    text = f"{tmp_path / 'parts'} has no classes but the splits test, train: open one"
    refused(InputError, text, lambda: Images.open(tmp_path / "parts"))
    refused(InputError, "channels must be 1 or 3, got 2: choose", lambda: Images.open(folder, channels=2))
    refused(InputError, "image size must be at least 1, got 0: choose", lambda: Images.open(folder, size=0))
    for file in folder.rglob("*.png"):
        file.write_bytes(b"")
    refused(InputError, "12 of 12 cannot be used, most of them because of", lambda: Images.open(folder))
