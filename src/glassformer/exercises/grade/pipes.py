"""Values sent between a grading process and its parent: a length, then a pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any

Document = Path | tuple[str, str, str]  # a file, or a text with its name and kind


def send(pipe: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Wait for one value; raises EOFError if the other process has closed the pipe."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    size = int.from_bytes(head, "little")
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
