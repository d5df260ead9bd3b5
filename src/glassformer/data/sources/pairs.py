"""Sentence pairs: source TAB target TAB attribution, in train.tsv, valid.tsv and test.tsv."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from glassformer.data.packages import Package, extract
from glassformer.data.registry import Item
from glassformer.data.sources.split import PARTS, part_of, plain

HELD_OUT = 0.02  # fraction of English sentences in each of valid and test: about 3,500 pairs


def _split(lines: Iterable[str], folder: Path) -> None:
    """Split by English sentence, ignoring case and punctuation, so that all its translations are in one part."""
    with ExitStack() as stack:
        out = {part: stack.enter_context((folder / f"{part}.tsv").open("w", encoding="utf-8")) for part in PARTS}
        for line in lines:
            source, _, _ = line.rstrip("\n").split("\t")
            out[part_of(plain(source), valid=HELD_OUT, test=HELD_OUT)].write(line)


def _tatoeba(files: list[Path], folder: Path, *, archive: str, inside: str) -> None:
    extract(files[0], {f"nmt-0.0.6/data/{archive}": archive}, folder)
    with zipfile.ZipFile(folder / archive) as whole, whole.open(inside) as raw:
        _split(io.TextIOWrapper(raw, encoding="utf-8", newline="\n"), folder)
    (folder / archive).unlink()


NMT = Package(
    registry="pip",
    name="nmt",
    version="0.0.6",
    sha256="65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096",
    megabytes=15.7,
    source=True,
    build="setuptools<70",
)
ORIGIN = (
    "Written by contributors to tatoeba.org; the third column gives the number and the author of each sentence. "
    "Selected by www.manythings.org/anki, 2020-08-23. Unchanged; split by a hash of the English sentence."
)

PAIRS: dict[str, Item] = {
    "tatoeba-en-fr": Item(
        about="178,009 pairs of English and French sentences",
        licence="CC BY 2.0 FR",
        origin=ORIGIN,
        packages=(NMT,),
        make=partial(_tatoeba, archive="fra-eng.zip", inside="fra.txt"),
    ),
    "tatoeba-en-es": Item(
        about="124,547 pairs of English and Spanish sentences",
        licence="CC BY 2.0 FR",
        origin=ORIGIN,
        packages=(NMT,),
        make=partial(_tatoeba, archive="spa-eng.zip", inside="spa.txt"),
    ),
}
