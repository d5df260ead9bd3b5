from __future__ import annotations

import gzip
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import soundfile

from glassformer.data.sources.speech import SPEECH, read_transcripts
from glassformer.data.sources.split import PARTS

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb to open the packages with")


def test_remarks_are_not_spoken() -> None:
    text = "; a comment: no\nbeep: [a tone]\njoin: <beep>\nsilence/1: (1 second)\n\nletters/at: at [@]\n"
    text += "intro: Leave  a message: now. (tone)\ndots: ... for ...\nnothing: ...\n"
    assert read_transcripts(text) == {"letters/at": "at", "intro": "Leave a message: now.", "dots": "... for ..."}


def deb(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    root = folder / name
    for path, data in {**files, "DEBIAN/control": CONTROL.format(name).encode()}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    subprocess.run(["dpkg-deb", "-b", str(root), str(folder / f"{name}.deb")], check=True, capture_output=True)
    return folder / f"{name}.deb"


CONTROL = "Package: {}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: test\n"


def wav(path: Path, samples: int) -> bytes:
    soundfile.write(path, np.zeros(samples, np.int16), 8000)
    return path.read_bytes()


def table(path: Path) -> list[list[str]]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    assert header == "path\tsentence"
    return [row.split("\t") for row in rows]


@needs_dpkg
def test_asterisk(tmp_path: Path) -> None:
    said = {f"digits/{i}": f"Number {i}." for i in range(40)}
    said |= {"again/3": "number 3", "gone": "No file.", "beep": "[x]"}
    doc = "".join(f"{name}: {text}\n" for name, text in said.items()).encode()
    sounds = {
        f"usr/share/asterisk/sounds/en_US_f_Allison/{name}.wav": wav(tmp_path / "x.wav", 80 + i)
        for i, name in enumerate(said)
        if name != "gone"
    }
    doc_name = "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
    files = [deb(tmp_path, "doc", {doc_name: gzip.compress(doc)}), deb(tmp_path, "wav", sounds)]
    made = tmp_path / "made"
    made.mkdir()
    SPEECH["asterisk-en"].make(files, made)
    rows = {part: table(made / f"{part}.tsv") for part in PARTS}
    everything = {path: text for part in PARTS for path, text in rows[part]}
    spoken = said.keys() - {"gone", "beep"}
    assert everything == {f"audio/{name.replace('/', '-')}.wav": said[name] for name in spoken}
    assert soundfile.info(made / "audio/digits-7.wav").frames == 87
    (part,) = [part for part in PARTS if ["audio/digits-3.wav", "Number 3."] in rows[part]]
    assert ["audio/again-3.wav", "number 3"] in rows[part]  # said twice: learnt or asked, not both
    assert all(rows.values())
    assert sorted(path.name for path in made.iterdir()) == ["audio", "test.tsv", "train.tsv", "valid.tsv"]


@needs_dpkg
def test_librivox(tmp_path: Path) -> None:
    inside = "usr/share/pocketsphinx/test/data/librivox"
    files = {f"{inside}/clip-{i}.wav": wav(tmp_path / "x.wav", 100) for i in range(5)}
    files[f"{inside}/transcription"] = "".join(f"<s> it is {i} </s> (clip-{i})\n" for i in range(5)).encode()
    made = tmp_path / "made"
    made.mkdir()
    SPEECH["librivox"].make([deb(tmp_path, "clips", files)], made)
    rows = {part: table(made / f"{part}.tsv") for part in PARTS}
    assert [len(rows[part]) for part in PARTS] == [3, 1, 1]
    assert sorted(map(tuple, chain(*rows.values()))) == [(f"audio/clip-{i}.wav", f"it is {i}") for i in range(5)]
    assert all((made / path).is_file() for path, _ in chain(*rows.values()))
    assert len((made / "transcription").read_text().splitlines()) == 5
