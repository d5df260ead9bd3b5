"""Output of commands: a file, written atomically, or standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from glassformer.errors import InputError
from glassformer.files import replacing


def figure_format(path: Path | None) -> str:
    """Return the format of a figure by its file extension: png or svg."""
    kind = "png" if path is None else path.suffix.removeprefix(".")
    if kind not in ("png", "svg"):
        raise InputError(f"--figure {path} has an unknown format", "end its name in .png or .svg")
    return kind


def require_writable(*paths: Path | None) -> None:
    """Check that the output can be written, before a long computation."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{path} is a folder", "give the path of a file")
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} for {path.name}", "choose another path, or create it")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{path} cannot be written: its folder is not writable", "choose another place")


def write(text: str, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(text)
    else:
        write_bytes(text.encode("utf-8"), path)


def write_bytes(data: bytes, path: Path) -> None:
    try:
        with replacing(path) as part:
            part.write_bytes(data)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror})", "choose another place") from None
