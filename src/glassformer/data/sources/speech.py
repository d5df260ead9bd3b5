"""Speech: audio/*.wav, and train.tsv, valid.tsv, test.tsv with the columns `path` (beside the TSV) and `sentence`."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from glassformer.data.packages import Package, extract
from glassformer.data.registry import Item
from glassformer.data.sources.split import PARTS, Part, chosen, part_of, plain
from glassformer.errors import CheckpointError

Row = tuple[str, str]  # path relative to the TSV, sentence


def write_tables(rows: Mapping[Part, list[Row]], folder: Path) -> None:
    """Write tables in Common Voice format: a header, then one recording per line."""
    for part in PARTS:
        lines = ["path\tsentence", *(f"{path}\t{sentence}" for path, sentence in rows[part])]
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_transcripts(text: str) -> dict[str, str]:
    """Parse lines of `id: sentence`. Remarks in brackets are removed; lines with nothing else are skipped."""
    sentences = {}
    for line in text.splitlines():
        name, colon, sentence = line.partition(":")
        spoken = " ".join(re.sub(r"\[[^]]*\]|\([^)]*\)|<[^>]*>", " ", sentence).split())
        if colon and not line.startswith(";") and plain(spoken):
            sentences[name.strip()] = spoken
    return sentences


def _asterisk(files: list[Path], folder: Path) -> None:
    doc = "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
    sounds = folder / "sounds"
    extract(files[0], {doc: "transcripts.gz"}, folder)
    extract(files[1], {"usr/share/asterisk/sounds/en_US_f_Allison": "sounds"}, folder)
    (folder / "audio").mkdir()
    rows: dict[Part, list[Row]] = {part: [] for part in PARTS}
    text = gzip.decompress((folder / "transcripts.gz").read_bytes()).decode()
    for name, sentence in sorted(read_transcripts(text).items()):
        source, path = sounds / f"{name}.wav", f"audio/{name.replace('/', '-')}.wav"
        if not source.is_file():
            continue
        if (folder / path).exists():
            raise CheckpointError(f"two recordings would both be named {path}", "fetch it again")
        source.rename(folder / path)
        # split by sentence, so that none is in both training and test data
        rows[part_of(plain(sentence), valid=0.1, test=0.1)].append((path, sentence))
    write_tables(rows, folder)
    shutil.rmtree(sounds)
    (folder / "transcripts.gz").unlink()


def _librivox(files: list[Path], folder: Path) -> None:
    """Split five clips, ordered by hash, into three, one and one. The package's `transcription` file is kept."""
    extract(files[0], {"usr/share/pocketsphinx/test/data/librivox": "clips"}, folder)
    (folder / "audio").mkdir()
    (folder / "clips" / "transcription").rename(folder / "transcription")
    lines = (folder / "transcription").read_text(encoding="utf-8")
    sentences = {name: text for text, name in re.findall(r"<s> (.*) </s> \((.*)\)", lines)}
    for name in sentences:
        (folder / "clips" / f"{name}.wav").rename(folder / "audio" / f"{name}.wav")
    shutil.rmtree(folder / "clips")
    rows = [(f"audio/{name}.wav", sentences[name]) for name in chosen(sentences)]
    write_tables({"train": rows[:-2], "valid": rows[-2:-1], "test": rows[-1:]}, folder)


SPEECH: dict[str, Item] = {
    "asterisk-en": Item(
        about="English telephone prompts, one speaker, 8 kHz, 24 minutes",
        licence="CC BY-SA 3.0",
        origin="Recorded by Allison Smith (theivrvoice.com) for Asterisk, 2003-2010, and paid for by Digium, Inc. "
        "Remarks in brackets were removed from the transcripts; recordings without a transcript were left out. Split "
        "by a hash of the sentence.",
        packages=(
            Package(
                registry="apt",
                name="asterisk-core-sounds-en",
                version="1.6.1-1",
                sha256="973e797d28e37fa6ca3c0a9d6fa717e77cf1268ae916bf09fd3503113cdffa50",
                megabytes=0.02,
            ),
            Package(
                registry="apt",
                name="asterisk-core-sounds-en-wav",
                version="1.6.1-1",
                sha256="2be3ea287d83299d143815fa804f11179a75b7affd4a758b98b55f5afc18a35d",
                megabytes=18.3,
            ),
        ),
        make=_asterisk,
    ),
    "librivox": Item(
        about="five sentences read aloud, with transcripts, 16 kHz, 25 s",
        licence="public domain",
        origin="Jane Austen's Sense and Sensibility, read by LibriVox volunteers and cut into sentences by the "
        "pocketsphinx project. Unchanged.",
        packages=(
            Package(
                registry="apt",
                name="pocketsphinx-testdata",
                version="0.8+5prealpha+1-15",
                sha256="eaeb7a01d54f20b799d1a81ef110ec544b2cb47ea006614078220737a33019f0",
                megabytes=1.8,
            ),
        ),
        make=_librivox,
    ),
}
