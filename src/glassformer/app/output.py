"""Where commands write to: a file, whole or not at all, or standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from glassformer.errors import InputError


def write(text: str, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(text)
    else:
        write_bytes(text.encode("utf-8"), path)


def write_bytes(data: bytes, path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)  # a reader never sees half a file
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written ({error.strerror})", "choose another place") from None
