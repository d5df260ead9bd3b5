"""python recipes/embed_data.py NAME…: rebuilds the embedded subsets from the fetched datasets.

uci-digits, moby-dick, shakespeare and librivox are embedded whole; fashion-mnist, tatoeba-en-fr and asterisk-en as
subsets, chosen by hash, in which every example keeps its split. The same folder gives the same bytes. An archive is a
solid .tar.xz, since images of a few hundred bytes compress well only together.
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import soundfile
from PIL import Image

from glassformer.data.registry import Item
from glassformer.data.sources.opening import HERE
from glassformer.data.sources.split import PARTS, Part, chosen, plain
from glassformer.data.sources.table import DATASETS, fetch

Files = dict[str, bytes]  # path inside → content
LIMIT = 3_000_000  # bytes of one archive


def _pictures(folder: Path, *, each: Mapping[str, int]) -> Files:
    """Copy this many images of each class to train and to test."""
    files = {}
    for part, most in each.items():
        for label in sorted((folder / part).iterdir()):
            for name in chosen(path.name for path in label.iterdir())[:most]:
                raw = io.BytesIO()
                with Image.open(label / name) as picture:
                    picture.save(raw, "PNG", compress_level=0)  # the archive compresses all of them at once
                files[f"{part}/{label.name}/{name}"] = raw.getvalue()
    return files


def _pairs(folder: Path, *, most: Mapping[Part, int]) -> Files:
    """Copy sentences with all their translations up to a number of pairs, in the order of the file."""
    files = {}
    for part, limit in most.items():
        lines = (folder / f"{part}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        keys = [plain(line.split("\t")[0]) for line in lines]
        count = Counter(keys)
        kept: set[str] = set()
        total = 0
        for key in chosen(keys):
            if total + count[key] <= limit:
                kept.add(key)
                total += count[key]
        own = [line for line, key in zip(lines, keys, strict=True) if key in kept]
        files[f"{part}.tsv"] = ("\n".join(own) + "\n").encode()
    return files


def _speech(folder: Path, *, seconds: Mapping[Part, float]) -> Files:
    """Copy recordings of less than eight seconds as FLAC, up to a total duration."""
    files = {}
    for part in PARTS:
        header, *lines = (folder / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        rows = {Path(line.split("\t")[0]).stem: line.split("\t") for line in lines}
        total, kept = 0.0, set()
        for name in chosen(rows):
            wave, rate = soundfile.read(folder / rows[name][0], dtype="int16")
            length = len(wave) / rate
            if length > 8 or total + length > seconds[part]:
                continue
            total += length
            raw = io.BytesIO()
            soundfile.write(raw, wave, rate, format="FLAC", subtype="PCM_16")
            files[f"audio/{name}.flac"] = raw.getvalue()
            kept.add(name)
        own = [f"audio/{name}.flac\t{rows[name][1]}" for name in rows if name in kept]
        files[f"{part}.tsv"] = ("\n".join([header, *own]) + "\n").encode()
    return files


def _text(folder: Path) -> Files:
    return {f"{part}.txt": (folder / f"{part}.txt").read_bytes() for part in PARTS}


ALL = 10**9
CHOICES: dict[str, tuple[str, Callable[[Path], Files]]] = {
    "asterisk-en": (
        "four minutes, as FLAC",
        partial(_speech, seconds={"train": 180, "valid": 30, "test": 30}),
    ),
    "fashion-mnist": ("5,000 images, 500 per class", partial(_pictures, each={"train": 420, "test": 80})),
    "librivox": ("the whole dataset, as FLAC", partial(_speech, seconds=dict.fromkeys(PARTS, 60.0))),
    "moby-dick": ("the whole dataset", _text),
    "shakespeare": ("the whole dataset", _text),
    "tatoeba-en-fr": (
        "25,000 pairs; each sentence has all of its translations",
        partial(_pairs, most={"train": 23_000, "valid": 1_000, "test": 1_000}),
    ),
    "uci-digits": ("the whole dataset", partial(_pictures, each={"train": ALL, "test": ALL})),
}


MIT = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
TERMS = {
    "CC BY 2.0 FR": "https://creativecommons.org/licenses/by/2.0/fr/",
    "CC BY 4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC BY-SA 3.0": "https://creativecommons.org/licenses/by-sa/3.0/ (share alike)",
    "CC0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "MIT": MIT,
    "public domain": "In the public domain where the authors' copyright has expired.",
}


def origin(name: str, item: Item, what: str) -> str:
    """Return the origin and licence of a dataset, as text for the archive and beside it."""
    lines = [f"# {name}: {item.about}", "", item.origin, "", f"Embedded: {what}.", ""]
    lines += [f"Licence: {item.licence}", "", TERMS[item.licence], "", "From:"]
    lines += [f"- {one.label} ({one.registry}), sha256 {one.sha256}" for one in item.packages]
    return "\n".join(lines) + "\n"


def pack(files: Mapping[str, bytes]) -> bytes:
    """Write a reproducible archive: files sorted, without times and owners."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            packed.addfile(member, io.BytesIO(files[name]))
    return lzma.compress(raw.getvalue(), preset=6 | lzma.PRESET_EXTREME)  # its window of 8 MB holds all of an archive


def embed(name: str, folder: Path, place: Path = HERE) -> Path:
    """Write the archive of a subset from its folder, and NAME.md beside it."""
    what, choose = CHOICES[name]
    card = origin(name, DATASETS[name], what)
    data = pack({**choose(folder), "ORIGIN.md": card.encode()})
    assert len(data) < LIMIT, f"{name} takes {len(data)} bytes"
    place.mkdir(exist_ok=True)
    (place / f"{name}.md").write_text(card, encoding="utf-8")
    path = place / f"{name}.tar.xz"
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    for chosen_name in sys.argv[1:] or CHOICES:
        made = embed(chosen_name, fetch(chosen_name, print))
        print(f"{made.name}: {made.stat().st_size:,} bytes")
