"""Pictures that anyone can tell apart: a bar across, a bar down, a block; each a little different."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

KINDS = ("across", "block", "down")


def draw(kind: str, random: np.random.Generator, size: int = 8) -> np.ndarray:
    pixels = random.integers(0, 60, (size, size), dtype=np.uint8)
    at, other = random.integers(1, size - 3, 2)
    rows = {"across": slice(at, at + 2), "down": slice(0, size), "block": slice(at, at + 3)}[kind]
    columns = {"across": slice(0, size), "down": slice(other, other + 2), "block": slice(other, other + 3)}[kind]
    pixels[rows, columns] = random.integers(180, 256)
    return pixels


def write(root: Path, each: int, seed: int) -> Path:
    random = np.random.default_rng(seed)
    for kind in KINDS:
        (root / kind).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(draw(kind, random)).save(root / kind / f"{i}.png")
    return root


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train/ and test/, a folder per class."""
    root = tmp_path_factory.mktemp("shapes")
    write(root / "train", 30, 0)
    write(root / "test", 10, 1)
    return root
