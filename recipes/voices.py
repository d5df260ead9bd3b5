"""Synthetic voices read sentences: recordings in Common Voice's form, for a recogniser that has too few real ones.

flite and espeak-ng speak (`apt-get install flite espeak-ng`). Which voice reads a sentence, and how fast, is a function
of the sentence alone, so a shorter list gives a part of what a longer one gives. Say that voices are synthetic wherever
what was learned from them is shown.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.errors import InputError

FLITE = ("slt", "slt", "awb", "rms", "kal16", "kal16")
KINDS = ("f1", "f2", "f3", "f4", "f5", "m1", "m3", "m5", "m7")
ESPEAK = tuple(f"{accent}+{kind}" for accent in ("en-us", "en-gb") for kind in KINDS)
LETTERS = set("abcdefghijklmnopqrstuvwxyz' ,.?!")


def digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def chosen(sentences: Iterable[str], count: int) -> list[str]:
    """The first `count` by their digest, of those with 10 to 70 characters and letters alone."""
    plain = {text for text in sentences if 10 <= len(text) <= 70 and set(text.lower()) <= LETTERS}
    return sorted(plain, key=digest)[:count]


def command(text: str, path: Path) -> list[str]:
    """Half are flite's, half espeak-ng's; from 0.8 to 1.2 of the usual speed."""
    voice, rest = divmod(digest(text) % 1_000_003, 41)
    if voice % 2:
        stretch = 0.85 + 0.4 * rest / 40
        set_ = ["--setf", f"duration_stretch={stretch:.2f}"]
        return ["flite", "-voice", FLITE[voice // 2 % len(FLITE)], *set_, "-t", text, "-o", str(path)]
    speed, pitch = 125 + rest, 30 + (voice // 2 // len(ESPEAK)) % 41
    name = ESPEAK[voice // 2 % len(ESPEAK)]
    return ["espeak-ng", "-v", name, "-s", str(speed), "-p", str(pitch), "-w", str(path), text]


def speak(sentences: Iterable[str], folder: Path) -> Iterator[Path]:
    """audio/*.wav and train.tsv; what is there already is not spoken again."""
    for tool in ("flite", "espeak-ng"):
        if shutil.which(tool) is None:
            raise InputError(f"{tool} is not installed", f"apt-get install {tool}")
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    rows = []
    for text in sentences:
        path = folder / "audio" / f"{digest(text):016x}.wav"
        if not path.is_file():
            part = path.with_suffix(".part")
            subprocess.run(command(text, part), check=True, capture_output=True)
            part.rename(path)
        rows.append((f"audio/{path.name}", text))
        yield path
    with (folder / "train.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        table.writerows([("path", "sentence"), *rows])


def main(count: int = 10_000) -> Path:
    """The first sentences of Tatoeba's English side, training part."""
    from glassformer.checkpoints.registry import cache
    from glassformer.tasks.sources import open_data

    with (open_data("tatoeba-en-fr") / "train.tsv").open(encoding="utf-8") as file:
        sentences = chosen((line.split("\t")[0] for line in file), count)
    folder = cache() / "synthetic-en"
    for number, _ in enumerate(speak(sentences, folder), 1):
        if not number % 500:
            print(f"{number} of {len(sentences)}", file=sys.stderr, flush=True)
    return folder


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
