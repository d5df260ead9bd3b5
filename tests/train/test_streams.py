"""Training on streams: every task takes one, in windows, and resumes in it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import webdataset
from PIL import Image

import glassformer as gf
from glassformer.data.stream import UNKNOWN_CLASS, Stream
from glassformer.errors import ConfigError
from glassformer.train import Trained

SMALL: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "lr": 1e-2}
WORDS = ("red", "blue", "green", "small", "large", "round", "flat", "new", "old")
Check = Callable[..., Trained]


def lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tar(rows: Sequence[Mapping[str, Any]]) -> bytes:
    file = io.BytesIO()
    with webdataset.TarWriter(file) as sink:
        for i, row in enumerate(rows):
            sink.write({"__key__": f"{i:04d}", **row})
    return file.getvalue()


def phrase(i: int) -> str:
    return f"a {WORDS[i % 9]} {WORDS[i * 5 % 7]} thing number {i}"


def sound(i: int) -> bytes:
    file = io.BytesIO()
    random = np.random.default_rng(i)
    soundfile.write(file, 0.1 * random.standard_normal(8000 + 400 * (i % 5)), 16000, format="WAV")
    return file.getvalue()


def picture(i: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(i).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


TEXTS = {
    "one class": [{"text": phrase(i), "label": "even" if i % 2 else "odd"} for i in range(24)],
    "several classes": [{"text": phrase(i), "label": ["even"] * (i % 2) + ["third"] * (i % 3 == 0)} for i in range(24)],
    "a number": [{"text": phrase(i), "label": i / 7} for i in range(24)],
    "words": [{"tokens": phrase(i).split(), "tags": ["O", "B-C", "O", "O", "O", "O"]} for i in range(24)],
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("kind", list(TEXTS))
def test_labelled_texts(streams_like_files: Check, kind: str) -> None:
    streams_like_files("classify", lines(TEXTS[kind]), ".jsonl", rows=10, batch_size=6, **SMALL)


def test_images(streams_like_files: Check) -> None:
    rows = [{"png": picture(i), "cls": "ab"[i % 2]} for i in range(20)]
    streams_like_files("classify", tar(rows), ".tar", rows=8, batch_size=6, arch="mlp", lr=1e-2)


def test_pairs_to_translate(streams_like_files: Check) -> None:
    rows = [{"en": phrase(i), "fr": f"chose {WORDS[i % 9]} {i}"} for i in range(24)]
    streams_like_files("translate", tar(rows), ".tar", rows=10, batch_size=40, vocab_size=300, **SMALL)


@pytest.mark.slow
def test_documents_to_model(streams_like_files: Check) -> None:
    rows = [{"txt": " ".join(map(phrase, range(i, i + 20))), "json": {"source": "made"}} for i in range(24)]
    streams_like_files("generate", tar(rows), ".tar", rows=6, batch_size=4, vocab_size=300, **SMALL)


@pytest.mark.slow
def test_sentences_with_masks(streams_like_files: Check) -> None:
    rows = [{"text": phrase(i)} for i in range(24)]
    streams_like_files("embed", lines(rows), ".jsonl", rows=10, batch_size=40, vocab_size=300, **SMALL)


@pytest.mark.slow
def test_recordings(streams_like_files: Check) -> None:
    rows = [{"wav": sound(i), "txt": "è là"} for i in range(6)]
    trained = streams_like_files("transcribe", tar(rows), ".tar", rows=2, batch_size=1, **SMALL)
    assert "è" in trained.objective.recognizer.charset.names  # type: ignore[attr-defined]


def test_pairs_with_the_same_meaning(streams_like_files: Check, bert: Path) -> None:
    rows = [{"anchor": phrase(i), "positive": f"the thing {i}"} for i in range(12)]
    streams_like_files("embed", lines(rows), ".jsonl", rows=5, batch_size=3, from_=str(bert))


@pytest.mark.slow
def test_several_processes_share_shards(tmp_path: Path) -> None:
    """Two processes with a worker each, every one with its share of each batch: the losses of one process."""
    for shard in range(3):
        rows = [{"png": picture(7 * shard + i), "cls": "ab"[i % 2]} for i in range(7)]
        (tmp_path / f"train-{shard}.tar").write_bytes(tar(rows))

    def losses(processes: int) -> list[float]:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
        command += ["-m", "glassformer", "train", "classify", str(tmp_path / "train-{0..2}.tar"), "--arch", "mlp"]
        command += ["--val", str(tmp_path / "train-0.tar"), "--steps", "6", "--batch-size", "8", "--no-augment"]
        command += ["--num-workers", "1", "--log-every", "1", "--report-to", "none", "-o", f"{tmp_path}/{processes}"]
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
        log = (tmp_path / f"{processes}" / "run" / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in log]

    assert losses(2) == pytest.approx(losses(1), rel=1e-5)


def test_several_processes_share_files_and_not_a_pipe(monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    train = lambda: gf.train("translate", "-", val="x.tsv", steps=2, progress=False)
    refused(ConfigError, "a stream has one reader, but there are several processes: give them shards as files", train)


def test_a_window_without_usable_rows_does_not_end_the_run(tmp_path: Path) -> None:
    """Rows are judged over the whole stream, not window by window."""
    rows = [*TEXTS["one class"], *({"text": "", "label": "odd"} for _ in range(3)), {"text": "x", "label": "new"}]
    rows += TEXTS["one class"][:3]
    (tmp_path / "val.jsonl").write_bytes(lines(TEXTS["one class"]))
    same: dict[str, Any] = {"val": tmp_path / "val.jsonl", "steps": 30, "batch_size": 2, "progress": False, **SMALL}
    trained = gf.train("classify", Stream(rows, rows=4), **same)
    assert trained.history[-1]["step"] == 12 + 0 + 2
    assert trained.faults is not None
    assert trained.faults.counts == {"empty text": 3, UNKNOWN_CLASS: 1}


def test_a_window_that_cannot_be_read_does_not_end_the_run(tmp_path: Path) -> None:
    rows = [(Image.open(io.BytesIO(picture(i))), "ab"[i % 2]) for i in range(8)]
    broken = [({"bytes": b"broken", "path": f"{i}.png"}, "a") for i in range(4)]
    for i, (image, label) in enumerate(rows):
        (tmp_path / label).mkdir(exist_ok=True)
        image.save(tmp_path / label / f"{i}.png")
    same: dict[str, Any] = {"val": tmp_path, "arch": "mlp", "lr": 1e-2, "batch_size": 2, "progress": False}
    trained = gf.train("classify", Stream([*rows[:4], *broken, *rows[4:]], rows=4), steps=6, **same)
    assert trained.history[-1]["step"] == 6
    assert trained.faults is not None
    assert trained.faults.counts == {"unreadable image": 4}


def test_the_learning_rate_is_found_in_the_first_window(tmp_path: Path) -> None:
    (tmp_path / "val.jsonl").write_bytes(lines(TEXTS["one class"]))
    same: dict[str, Any] = {**SMALL, "lr": "auto", "val": tmp_path / "val.jsonl", "batch_size": 4, "progress": False}
    stream = Stream(TEXTS["one class"], rows=8)
    trained = gf.train("classify", stream, steps=3, **same)
    assert trained.history[-1]["step"] == 3
    assert isinstance(trained.args.lr, float)
