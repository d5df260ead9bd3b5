"""Streams: tars written by the webdataset library and JSON Lines, through a pipe, read once in windows."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset
from PIL import Image

import glassformer as gf
from glassformer.data.faults import Fault
from glassformer.data.stream import UNKNOWN_CLASS, Stream, is_stream
from glassformer.errors import ConfigError, InputError

COLOURS = ("blue", "green", "red")


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 100, (8, 8, 3), dtype=np.uint8)
    pixels[..., seed % 3] += 120
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def tar(first: int, count: int, **more: Any) -> bytes:
    file = io.BytesIO()
    with webdataset.TarWriter(file) as sink:
        for i in range(first, first + count):
            sink.write({"__key__": f"{i:04d}", "png": png(i), "cls": COLOURS[i % 3], **more})
    return file.getvalue()


def keys(stream: Stream) -> list[list[str]]:
    found: list[list[str]] = []
    while (window := stream.window(len(found))) is not None:
        found.append([window.read(i)["__key__"] for i in range(len(window))])
    return found


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_tars_after_one_another(piped: Callable[..., Path], packed: Callable[[bytes], bytes]) -> None:
    bare = tar(7, 5).rstrip(b"\0") + bytes(512 + 512 - len(tar(7, 5).rstrip(b"\0")) % 512 + 512)  # no padding to 10 KB
    pipe = piped(packed(tar(0, 7) + bare + tar(12, 3)))
    assert is_stream(pipe)
    stream = Stream.open(pipe, rows=6)
    first = stream.window(0)
    assert first is not None
    assert first.read(2)["image"] == {"path": "0002.png", "bytes": png(2)}
    assert first.read(2)["label"] == "red"
    numbers = [key for window in keys(stream) for key in window]
    assert numbers == [f"{i:04d}" for i in range(15)]
    assert (stream.seen, stream.broken) == (15, "")
    with pytest.raises(InputError, match="window 0 of a stream has passed"):
        stream.window(0)


def test_a_window_has_as_many_bytes_as_it_may(piped: Callable[..., Path]) -> None:
    found = keys(Stream.open(piped(tar(0, 9)), bytes=3 * len(png(0))))
    assert [len(window) for window in found] == [3, 3, 3]


@pytest.mark.parametrize("size", [700, 1024, 3000, 5000])
def test_data_that_breaks_off(piped: Callable[..., Path], size: int) -> None:
    stream = Stream.open(piped(tar(0, 2) + tar(2, 8)[:size]))
    whole = keys(stream)[0]
    assert stream.broken in ("unexpected end of data", "truncated header", "empty header")
    assert whole[:2] == ["0000", "0001"]
    assert len(whole) < 10


def test_json_lines(piped: Callable[..., Path]) -> None:
    lines = [json.dumps({"text": f"film {i}", "meta": {"stars": i}}) for i in range(5)] + ["", "{not", "[1]"]
    window = Stream.open(piped("\n".join(lines).encode())).window(0)
    assert window is not None
    assert window.read(3) == {"text": "film 3", "meta.stars": 3}
    assert [str(row) for row in window.scan() if isinstance(row, Fault)] == [
        "empty line: line 6", "not JSON: line 7", "not a JSON object: line 8"
    ]  # fmt: skip


def test_what_is_refused(piped: Callable[..., Path], refused: Any, tmp_path: Path) -> None:
    for content, fact in ((b"", "is empty"), (b"<!DOCTYPE html>", "begins with '<!DOCTYPE")):
        with pytest.raises(InputError, match=fact):
            Stream.open(piped(content)).window(0)
    train = lambda **given: gf.train("classify", "-", progress=False, **given)
    refused(ConfigError, "training on a stream needs --val", train)
    refused(ConfigError, "training on a stream needs --steps", lambda: train(val="x"))
    refused(InputError, "--val - is a stream", lambda: gf.train("classify", "uci-digits", val="-", progress=False))
    for url, command in (("http://x.y/{a,b}", "curl -L http://x.y/{a,b}"), ("pipe:aws s3 cp x -", "aws s3 cp x -")):
        with pytest.raises(InputError, match="training fetches nothing itself") as error:
            gf.train("classify", url, progress=False)
        assert f"stream it: {command} | glassformer train" in str(error.value)


@pytest.mark.usefixtures("undrawn")
def test_training_streams_and_resumes(piped: Callable[..., Path], tmp_path: Path) -> None:
    """The classes are those of the validation data, and the end of the data ends the run."""
    for i in range(12):
        place = tmp_path / "val" / COLOURS[i % 3]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.png").write_bytes(png(999 + i))
    odd = io.BytesIO()
    with webdataset.TarWriter(odd) as sink:
        sink.write({"__key__": "odd", "png": png(3), "cls": "violet"})
    data = [tar(0, 50), odd.getvalue(), tar(50, 30)]
    same: dict[str, Any] = {"val": tmp_path / "val", "arch": "mlp", "batch_size": 10, "lr": 1e-2, "progress": False}

    def train(steps: int, output: str, resume: bool = False) -> Any:
        stream = Stream.open(piped(*data), rows=20)
        return gf.train("classify", stream, steps=steps, output=tmp_path / output, resume=resume, **same)

    whole = train(8, "whole")
    assert whole.history[-1]["step"] == 8
    assert whole.metrics["accuracy"] == 1
    ended = train(20, "ended")
    assert ended.stopped == "finished"
    assert ended.history[-1]["step"] == 9, "20 + 20 + 19 of known class + 20 + 1 rows, in batches of 10"
    assert ended.faults.counts == {UNKNOWN_CLASS: 1}
    assert gf.classify(gf.load(tmp_path / "ended"), tmp_path / "val" / "red" / "2.png").label == "red"
    train(5, "again")
    again = train(8, "again", resume=True)
    assert again.history[-1]["step"] == 8
    assert again.objective.stream.seen == whole.objective.stream.seen
