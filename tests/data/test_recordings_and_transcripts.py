from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from glassformer.data.audio import read_sound
from glassformer.data.faults import Fault
from glassformer.data.python import reader_of
from glassformer.data.recordings import Recordings
from glassformer.errors import InputError


def record(path: Path, seconds: float = 0.5, rate: int = 16_000, loud: float = 0.5, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.name)).uniform(-loud, loud, round(seconds * rate))
    soundfile.write(path, noise, rate, **how)


@pytest.fixture
def voices(tmp_path: Path) -> Path:
    """Common Voice's convention: clips/ beside the table, columns among others."""
    for i, rate in enumerate((16_000, 48_000, 8_000)):
        record(tmp_path / "clips" / f"{i}.wav", 0.5 + i / 10, rate)
    lines = ["client_id\tpath\tsentence\tup_votes", "a\t0.wav\tHello, world.\t2", "b\t1.wav\tÇa va ?\t0"]
    lines.append("c\t2.wav\tYes\t1")
    (tmp_path / "train.tsv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    return tmp_path / "train.tsv"


def test_common_voice(voices: Path) -> None:
    rows = pickle.loads(pickle.dumps(Recordings.open(voices)))
    assert len(rows) == 3
    assert [rows.sentence(i) for i in range(3)] == ["Hello, world.", "Ça va ?", "Yes"]
    assert [round(rows.seconds(i), 3) for i in range(3)] == [0.5, 0.6, 0.7]
    assert rows.lengths.tolist() == [50, 60, 70]
    for i in range(3):
        wave = rows.wave(i)
        assert wave.dtype == torch.float32
        assert len(wave) == round(16_000 * (0.5 + i / 10))
        assert torch.equal(wave, read_sound(voices.parent / "clips" / f"{i}.wav", 16_000))
    theirs, rate = soundfile.read(voices.parent / "clips" / "0.wav", dtype="float32")
    assert rate == 16_000
    assert torch.equal(rows.wave(0), torch.tensor(theirs))


def test_some_rows(voices: Path) -> None:
    rows = Recordings.open(voices, longest=0.65)
    part = pickle.loads(pickle.dumps(rows.part(np.array([2, 0]))))
    assert [part.sentence(i) for i in range(len(part))] == ["Yes", "Hello, world."]
    assert torch.equal(part.wave(1), rows.wave(0))
    with pytest.raises(Fault, match=r"more than 0\.65 s"):
        part.wave(0)


def test_librispeech(tmp_path: Path) -> None:
    for name, seconds in (("84-121123-0000", 0.3), ("84-121123-0001", 0.4), ("85-1-0000", 0.5)):
        speaker, chapter, _ = name.split("-")
        record(tmp_path / speaker / chapter / f"{name}.flac", seconds)
    (tmp_path / "84/121123/84-121123.trans.txt").write_text("84-121123-0000 GO DO YOU HEAR\n84-121123-0001 BUT\n\n")
    (tmp_path / "85/1/85-1.trans.txt").write_text("85-1-0000 IT WAS\n85-1-0001\n")
    rows = Recordings.open(tmp_path)
    assert [rows.sentence(i) for i in range(3)] == ["GO DO YOU HEAR", "BUT", "IT WAS"]
    assert [len(rows.wave(i)) for i in range(3)] == [4800, 6400, 8000]
    assert rows.file(2) == tmp_path / "85/1/85-1-0000.flac"
    told = ["empty line: 1 (84/121123/84-121123.trans.txt line 3)", "empty sentence: 1 (85/1/85-1.trans.txt line 2)"]
    assert rows.faults.summary() == told


@pytest.mark.parametrize("folder", ["", "audio", "clips"])
@pytest.mark.parametrize("suffix", [".flac", ""])
def test_where_sound_may_lie(tmp_path: Path, folder: str, suffix: str) -> None:
    record(tmp_path / folder / "a.b.flac")
    (tmp_path / "x.tsv").write_text(f"path\tsentence\na.b{suffix}\tyes\n")
    assert Recordings.open(tmp_path / "x.tsv").file(0) == tmp_path / folder / "a.b.flac"


def test_samples_from_python() -> None:
    wave = np.random.default_rng(0).uniform(-0.5, 0.5, 8000).astype(np.float32)
    stereo = torch.from_numpy(np.stack([wave, wave]))
    for sound in (wave, torch.from_numpy(wave), stereo, {"array": wave, "sampling_rate": 16_000}):
        opened = Recordings.open(reader_of([{"audio": sound, "text": "hello"}]))
        assert opened.seconds(0) == 0.5
        assert torch.equal(opened.wave(0), torch.from_numpy(wave))
    for pcm in (np.int16(32767 * wave), np.uint8(128 + 127 * wave), torch.from_numpy(np.int32(2147483000 * wave))):
        opened = Recordings.open(reader_of([{"audio": pcm, "text": "hello"}]))
        assert torch.allclose(opened.wave(0), torch.from_numpy(wave), atol=0.02), "integers are scaled to −1 to 1"
    slow = Recordings.open(reader_of([{"audio": {"array": wave, "sampling_rate": 8000}, "sentence": "hello"}]))
    assert len(slow.wave(0)) == 16_000


def test_broken_rows_are_counted(voices: Path) -> None:
    with voices.open("ab") as file:
        file.write(b"\nc\t2.wav\tYes\t1\n\nd\t2.wav\t \t1\ne\t2.wav\tno\n\xff\t2.wav\tno\t1\n")
    rows = Recordings.open(voices)
    assert len(rows) == 4
    assert rows.faults.counts == {
        "empty line": 1,
        "empty sentence": 1,
        "wrong number of columns (not 4)": 1,
        "not UTF-8": 1,
    }


def test_sound_that_cannot_be_used_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "good.wav")
    record(tmp_path / "silent.wav", loud=5e-4)
    record(tmp_path / "long.flac", 1.01, 8_000)
    record(tmp_path / "short.wav", 0.05)
    (tmp_path / "broken.wav").write_bytes(b"RIFF and no more")
    (tmp_path / "empty.flac").write_bytes(b"")
    soundfile.write(tmp_path / "nan.wav", np.array([0.5, np.nan] * 4000, dtype=np.float32), 16_000, subtype="FLOAT")
    names = ["silent.wav", "long.flac", "short.wav", "broken.wav", "empty.flac", "nan.wav", "gone.wav"]
    lines = "".join(f"{name}\tyes\n" for name in ["good.wav", *names])
    (tmp_path / "x.tsv").write_text("path\tsentence\n" + lines)
    rows = Recordings.open(tmp_path / "x.tsv", longest=1)
    kept = rows.faults.each(range(8), rows.wave)
    assert len(kept) == 1
    assert rows.faults.summary() == [
        "silent recording: 1 (silent.wav)",
        "recording of more than 1 s: 1 (long.flac)",
        "recording of less than 0.1 s: 1 (short.wav)",
        "unreadable recording: 2 (broken.wav, empty.flac)",
        "recording with samples that are not numbers: 1 (nan.wav)",
        "missing recording: 1 (gone.wav)",
    ]
    assert rows.lengths.tolist() == [50, 50, 0, 5, 0, 0, 50, 0]
    monkeypatch.setattr("glassformer.data.recordings.read_sound", None)
    with pytest.raises(Fault, match="more than 1 s"):  # not read to find that out
        rows.wave(2)


def test_what_is_refused(voices: Path, tmp_path: Path, refused: Any) -> None:
    table = tmp_path / "x.tsv"
    refused(InputError, f"there is no {table}: give", lambda: Recordings.open(table))
    table.write_text("path\tspeaker\na.wav\tb\n")
    says = f"{table} has no column for transcript among path, speaker: give"
    refused(InputError, says, lambda: Recordings.open(table))
    table.write_text("path\tsentence\n")
    refused(InputError, f"{table} has no recordings: give", lambda: Recordings.open(table))
    table.write_text("path\tsentence\n\n")
    refused(InputError, "1 of 1 cannot be used", lambda: Recordings.open(table))
    (tmp_path / "bare").mkdir()
    says = f"{tmp_path / 'bare'} contains neither a table nor *.trans.txt files as in LibriSpeech: name"
    refused(InputError, says, lambda: Recordings.open(tmp_path / "bare"))
    refused(
        InputError, "shortest is 2 s and longest is 1 s: choose", lambda: Recordings.open(voices, longest=1, shortest=2)
    )
