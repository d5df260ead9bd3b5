"""Recordings in Common Voice's form for a recogniser that has too few real ones: synthetic voices read, and real
recordings are joined.

flite and espeak-ng speak (`apt-get install flite espeak-ng`): sentences of Tatoeba, single words, and phrases in which
the words of the real training transcripts follow each other as they do there. Which voice reads a text, and how fast,
is a function of the text alone, so a shorter list gives a part of what a longer one gives. Say that voices are
synthetic wherever what was learned from them is shown.
"""

from __future__ import annotations

import csv
import hashlib
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile

from glassformer.core.audio import RATE
from glassformer.data.packages import cache
from glassformer.data.recordings import Recordings
from glassformer.data.sources import open_data
from glassformer.errors import InputError
from glassformer.pipelines.speech.charset import normalize_transcript

SEED = 7

FLITE = ("slt", "slt", "awb", "rms", "kal16", "kal16")
KINDS = ("f1", "f2", "f3", "f4", "f5", "m1", "m3", "m5", "m7")
ESPEAK = tuple(f"{accent}+{kind}" for accent in ("en-us", "en-gb") for kind in KINDS)
LETTERS = set("abcdefghijklmnopqrstuvwxyz' ,.?!")


def digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def chosen(sentences: Iterable[str], count: int) -> list[str]:
    """Return `count` sentences of 10 to 70 characters without digits and symbols, chosen by hash."""
    plain = {text for text in sentences if 10 <= len(text) <= 70 and set(text.lower()) <= LETTERS}
    return sorted(plain, key=digest)[:count]


def single(sentences: Iterable[str], count: int) -> list[str]:
    """Return the most frequent words."""
    words = Counter(word for text in sentences for word in normalize_transcript(text).split())
    return [word for word, _ in words.most_common(count)]


def phrases(transcripts: Sequence[str], count: int, longest: int = 8) -> list[str]:
    """Return random walks of 2 to `longest` words over the word bigrams of the transcripts."""
    follow: defaultdict[str, list[str]] = defaultdict(list)
    for text in transcripts:
        for before, after in pairwise(["", *normalize_transcript(text).split(), ""]):
            follow[before].append(after)
    draw, found = random.Random(SEED), dict[str, None]()
    while len(found) < count:
        words = [draw.choice([word for word in follow if word])]
        while len(words) < longest and (word := draw.choice(follow[words[-1]])):
            words.append(word)
        if len(words) > 1:
            found[" ".join(words)] = None
    return list(found)


def command(text: str, path: Path) -> list[str]:
    """Return the command of a synthesiser: half of them flite, half espeak-ng, at 0.8 to 1.2 times normal speed."""
    voice, rest = divmod(digest(text) % 1_000_003, 41)
    if voice % 2:
        stretch = 0.85 + 0.4 * rest / 40
        set_ = ["--setf", f"duration_stretch={stretch:.2f}"]
        return ["flite", "-voice", FLITE[voice // 2 % len(FLITE)], *set_, "-t", text, "-o", str(path)]
    speed, pitch = 125 + rest, 30 + (voice // 2 // len(ESPEAK)) % 41
    name = ESPEAK[voice // 2 % len(ESPEAK)]
    return ["espeak-ng", "-v", name, "-s", str(speed), "-p", str(pitch), "-w", str(path), text]


def speak(sentences: Iterable[str], folder: Path) -> Iterator[Path]:
    """Write audio/*.wav and train.tsv; existing files are kept."""
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
    listed(rows, folder)


def listed(rows: Iterable[tuple[str, str]], folder: Path) -> None:
    with (folder / "train.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        table.writerows([("path", "sentence"), *rows])


def join(recordings: Recordings, count: int, folder: Path, longest: float = 2.5) -> None:
    """Join two to four recordings of at most `longest` seconds, with 0 to 0.3 s of silence between them."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    draw, rows = random.Random(SEED), []
    short = [i for i in range(len(recordings)) if recordings.seconds(i) <= longest]
    for number in range(count):
        chosen = draw.sample(short, draw.randint(2, 4))
        gaps = [np.zeros(int(0.3 * RATE * draw.random()), np.float32) for _ in chosen]
        parts = [part for i, gap in zip(chosen, gaps, strict=True) for part in (recordings.wave(i).numpy(), gap)]
        soundfile.write(folder / "audio" / f"{number:05}.wav", np.concatenate(parts[:-1]), RATE)
        rows.append((f"audio/{number:05}.wav", " ".join(normalize_transcript(recordings.sentence(i)) for i in chosen)))
    listed(rows, folder)


def main(count: int = 10_000, words: int = 2_500, walks: int = 2_500, joined: int = 1_500) -> Path:
    """Write synthetic and joined recordings, from the training splits of Tatoeba (English) and asterisk-en."""
    with (open_data("tatoeba-en-fr") / "train.tsv").open(encoding="utf-8") as file:
        sentences = [line.split("\t")[0] for line in file]
    real = Recordings.open(open_data("asterisk-en") / "train.tsv", longest=120)
    transcripts = [real.sentence(i) for i in range(len(real))]
    texts = [*chosen(sentences, count), *single(transcripts, words // 2), *single(sentences, words)]
    texts = list(dict.fromkeys([*texts, *phrases(transcripts, walks)]))
    folder = cache() / "synthetic-en"
    for number, _ in enumerate(speak(texts, folder), 1):
        if not number % 500:
            print(f"{number} of {len(texts)}", file=sys.stderr, flush=True)
    join(real, joined, cache() / "joined-en")
    return folder


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
