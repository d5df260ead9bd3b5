"""Small JSON files of a folder, read with care."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError

LARGEST = 10_000_000  # bytes; published configs have a few thousand


def read_json(path: Path) -> Any:
    if not path.is_file():
        raise CheckpointError(f"there is no {path}", "give a folder with config.json and model.safetensors")
    if path.stat().st_size > LARGEST:
        raise CheckpointError(f"{path.name} has {path.stat().st_size} bytes", f"at most {LARGEST} are read")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON", "get it again from where it was published") from None


def read_object(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} holds a {type(found).__name__}", "it must hold names with values")
    return found


def inside(folder: Path, name: Any) -> Path:
    """A file or folder named by another file: directly in the folder, or the folder itself."""
    if name == "":
        return folder
    if not isinstance(name, str) or Path(name).name != name or name == "..":
        raise CheckpointError(f"a file of {folder} points to {str(name)[:80]!r}", "parts lie directly in the folder")
    return folder / name
