from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.pipelines.speech import microphone


def test_samples_of_a_pipe_however_they_are_cut() -> None:
    numbers = np.arange(-2000, 2001, 5, dtype="<i2")
    read, write = os.pipe()

    def send() -> None:
        data = numbers.tobytes()
        for cut in range(0, len(data), 333):  # odd: a sample comes in two halves
            os.write(write, data[cut : cut + 333])
        os.close(write)

    sender = threading.Thread(target=send)
    sender.start()
    with os.fdopen(read, "rb") as stream:
        heard = torch.cat(list(microphone.from_pipe(stream)))
    sender.join()
    assert torch.equal(heard, torch.from_numpy(numbers.astype(np.float32) / 32768))


def test_an_interrupt_ends_the_sound_and_nothing_else() -> None:
    def pieces() -> Iterator[Tensor]:
        for i in range(5):
            yield torch.tensor([float(i)])

    before = signal.getsignal(signal.SIGINT)
    heard = []
    for piece in microphone.until_interrupted(pieces()):
        heard.append(float(piece))
        if len(heard) == 3:
            os.kill(os.getpid(), signal.SIGINT)  # while the piece is worked on: the work goes on
            heard.append(-1.0)
    assert heard == [0.0, 1.0, 2.0, -1.0]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_waiting() -> None:
    """Nothing comes any more, and Ctrl-C does."""
    read, write = os.pipe()
    os.write(write, b"\0\1")
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with os.fdopen(read, "rb") as stream:
        heard = list(microphone.until_interrupted(microphone.from_pipe(stream)))
    os.close(write)
    assert [piece.tolist() for piece in heard] == [[256 / 32768]]


def test_no_microphone(monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    monkeypatch.setattr(microphone, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    refused(InputError, "no microphone is available", lambda: microphone.from_microphone(16000))


def recorder(folder: Path, lines: str) -> None:
    path = folder / "arecord"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def test_arecord(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    """A program of that name in its place: what it writes is heard, and why it fails is told."""
    monkeypatch.setattr(microphone, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    recorder(tmp_path, 'test "$*" = "-q -t raw -f S16_LE -c 1 -r 8000" && head -c 640 /dev/zero')
    assert sum(map(len, microphone.from_microphone(8000))) == 320
    recorder(tmp_path, "echo 'arecord: main: audio open error: No such file' >&2; exit 1")
    refused(InputError, "arecord recorded no audio (arecord: main", lambda: list(microphone.from_microphone(8000)))
