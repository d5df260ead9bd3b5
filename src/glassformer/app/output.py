"""Where commands write to: a file, whole or not at all, or standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from glassformer.errors import InputError


def require(*paths: Path | None) -> None:
    """Files that are to be written after long work can be: said before it begins."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{path} is a folder", "name a file")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise InputError(f"{path} cannot be written: no such folder, or not yours", "choose another place")


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
