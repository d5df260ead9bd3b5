"""Live audio: raw PCM from standard input, or a microphone through sounddevice or arecord."""

from __future__ import annotations

import queue
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, cast

from glassformer.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 0.04  # seconds per microphone block


class Buffered(Protocol):
    def read1(self, size: int, /) -> bytes:
        """Block until data is available and return it; empty at the end."""


def from_pipe(stream: Buffered) -> Iterator[Tensor]:
    """Yield mono 16-bit little-endian samples as they arrive; an incomplete sample is kept for the next read."""
    left = b""
    while True:
        data = stream.read1(1 << 16)
        if not data:
            return
        data = left + data
        left = data[len(data) // 2 * 2 :]
        yield samples(data[: len(data) // 2 * 2])


def samples(data: bytes) -> Tensor:
    """s16le → samples in [−1, 1]."""
    import numpy as np
    import torch

    return torch.from_numpy(np.frombuffer(data, dtype="<i2").astype(np.float32) / 32768)


def from_microphone(rate: int) -> Iterator[Tensor]:
    if find_spec("sounddevice") is not None:
        return _by_sounddevice(rate)
    if shutil.which("arecord") is not None:
        return _by_arecord(rate)
    raise InputError(
        "no microphone is available",
        "pip install sounddevice, install arecord (alsa-utils), or pipe raw PCM: … | glassformer transcribe --live",
    )


def _by_sounddevice(rate: int) -> Iterator[Tensor]:
    import importlib

    try:
        sounddevice: Any = importlib.import_module("sounddevice")
        waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        receive = lambda data, frames, time, status: waiting.put(bytes(data))
        stream = sounddevice.RawInputStream(
            samplerate=rate, blocksize=int(BLOCK * rate), channels=1, dtype="int16", callback=receive
        )
    except Exception as error:  # missing PortAudio, no device, unsupported rate: each raises its own exception
        fact = f"the microphone cannot be opened ({str(error)[:80]})"
        raise InputError(fact, "connect one, or pipe raw PCM") from None
    with stream:
        while True:
            blocks = [waiting.get()]
            while not waiting.empty():  # a slow model takes what has arrived meanwhile in one piece
                blocks.append(waiting.get())
            yield samples(b"".join(blocks))


def _by_arecord(rate: int) -> Iterator[Tensor]:
    command = ["arecord", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield from from_pipe(cast(Buffered, process.stdout))
        finally:
            process.terminate()
        if process.wait() > 0:
            lines = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1][:80] if lines else f"exit code {process.returncode}"
            raise InputError(f"arecord recorded no audio ({reason})", "connect a microphone, or pipe raw PCM")


def incoming(rate: int) -> Iterator[Tensor]:
    """Read standard input if it is piped, else a microphone."""
    return from_microphone(rate) if sys.stdin.isatty() else from_pipe(cast(Buffered, sys.stdin.buffer))


def until_interrupted(pieces: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the pieces until Ctrl-C, which ends the audio gracefully; running computation is not interrupted."""
    asked = waiting = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if waiting:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, ask)
    try:
        while not asked:
            waiting = True
            piece = next(pieces, None)
            waiting = False
            if piece is None:
                return
            yield piece
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGINT, before)
