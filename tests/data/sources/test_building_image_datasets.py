from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data.sources.images import CIFAR, FASHION, IMAGES, read_idx
from glassformer.errors import CheckpointError

Tarred = Callable[[dict[str, bytes]], Path]
RANDOM = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_mnist(tarred: Tarred, tmp_path: Path) -> None:
    train, test = (RANDOM.integers(0, 256, (n, 28, 28)).astype(np.uint8) for n in (3, 2))
    files = {"train-images-idx3": train, "t10k-images-idx3": test}
    files |= {"train-labels-idx1": np.array([5, 0, 5], np.uint8), "t10k-labels-idx1": np.array([7, 2], np.uint8)}
    archive = tarred({f"package/data/{name}-ubyte": idx(array) for name, array in files.items()})
    IMAGES["mnist"].make([archive], tmp_path / "made")
    made = tmp_path / "made"
    found = sorted(str(path.relative_to(made)) for path in made.rglob("*.*"))
    names = ["test/2/00001", "test/7/00000", "train/0/00001", "train/5/00000", "train/5/00002"]
    assert found == [f"{name}.png" for name in names]
    assert np.array_equal(pixels(made / "train/5/00002.png"), train[2])
    assert np.array_equal(pixels(made / "test/2/00001.png"), test[1])


def test_no_idx_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(CheckpointError, match="x is not an IDX file"):
        read_idx(tmp_path / "x")


def sheet(pictures: np.ndarray) -> bytes:
    """Rows as the package has them: one picture a row, its own rows one after the other."""
    raw = io.BytesIO()
    Image.fromarray(pictures.reshape(len(pictures), 1024, 3)).save(raw, "PNG")
    return raw.getvalue()


def test_cifar_pictures_come_out_of_their_rows(tarred: Tarred, tmp_path: Path) -> None:
    pictures = RANDOM.integers(0, 256, (6, 2, 32, 32, 3)).astype(np.uint8)
    files = {f"package/data_batch_{i + 1}.png": sheet(pictures[i]) for i in range(5)}
    files["package/test_batch.png"] = sheet(pictures[5])
    files["package/train_lables.json"] = json.dumps(list(range(10))).encode()
    files["package/test_lables.json"] = b"[3, 8]"
    IMAGES["cifar10"].make([tarred(files)], tmp_path / "made")
    for number, label in enumerate(CIFAR):
        path = tmp_path / "made" / "train" / label / f"{number:05}.png"
        assert np.array_equal(pixels(path), pictures[number // 2, number % 2])
    assert np.array_equal(pixels(tmp_path / "made/test/ship/00001.png"), pictures[5, 1])
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["test", "train"]
    assert sorted(CIFAR) == CIFAR  # folders in order of their names are the published labels


def test_labels_that_do_not_fit(tarred: Tarred, tmp_path: Path) -> None:
    blank = sheet(np.zeros((2, 32, 32, 3), np.uint8))
    files = {f"package/data_batch_{i + 1}.png": blank for i in range(5)}
    files["package/train_lables.json"] = json.dumps([0] * 11).encode()
    with pytest.raises(CheckpointError, match="there are 10 images and 11 labels"):
        IMAGES["cifar10"].make([tarred(files)], tmp_path / "made")


def test_fashion_leaves_out_what_is_empty_and_keeps_copies_together(tarred: Tarred, tmp_path: Path) -> None:
    one, two = ([int(value) for value in RANDOM.integers(0, 256, 784)] for _ in range(2))
    classes = [[one, [], two, one]] + [[[label] * 784] for label in range(1, 10)]
    files = {f"package/src/clothes/{i}.json": json.dumps({"data": data}).encode() for i, data in enumerate(classes)}
    IMAGES["fashion-mnist"].make([tarred(files)], tmp_path / "made")
    paths = {path.name: path for path in (tmp_path / "made").rglob("t-shirt/*.png")}
    assert sorted(paths) == ["00000.png", "00002.png", "00003.png"]
    assert paths["00000.png"].parent == paths["00003.png"].parent
    assert pixels(paths["00002.png"]).ravel().tolist() == two
    assert {path.name for path in (tmp_path / "made").glob("*/*")} == set(FASHION)


def test_digits_keep_their_counts(tmp_path: Path) -> None:
    counts = RANDOM.integers(0, 17, (4, 64))
    rows = "".join(",".join(map(str, row)) + f",{label}\n" for row, label in zip(counts, "1203", strict=True))
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("sklearn/datasets/data/digits.csv.gz", gzip.compress(rows.encode()))
    IMAGES["uci-digits"].make([tmp_path / "x.whl"], tmp_path / "made")
    for number, label in enumerate("1203"):
        (path,) = (tmp_path / "made").rglob(f"{number:05}.png")
        assert path.parent.name == label
        assert np.array_equal(np.rint(pixels(path) / 255 * 16).ravel(), counts[number])
