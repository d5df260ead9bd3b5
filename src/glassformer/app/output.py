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


def require_place(path: Path | None) -> None:
    """Before the work, and not after it: that what is to be written has a folder."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} for {path.name}", "choose another place, or make it")
    if path is not None and path.is_dir():
        raise InputError(f"{path} is a folder", "choose the name of a file in it")


def write_bytes(data: bytes, path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)  # a reader never sees half a file
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written ({error.strerror})", "choose another place") from None
