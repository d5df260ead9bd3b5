"""Safe reading of the small text and JSON files in a model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError

LARGEST = 10_000_000  # bytes; published configs have a few thousand


def read_text(path: Path, largest: int = LARGEST) -> str:
    if not path.is_file():
        raise CheckpointError(f"there is no {path}", "give a folder with config.json and model.safetensors")
    if path.stat().st_size > largest:
        raise CheckpointError(f"{path.name} has {path.stat().st_size} bytes", f"at most {largest} are read")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not UTF-8 text", "download it again") from None


def read_json(path: Path, largest: int = LARGEST) -> Any:
    try:
        return json.loads(read_text(path, largest))
    except CheckpointError:
        raise
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON", "download it again") from None


def read_object(path: Path, largest: int = LARGEST) -> dict[str, Any]:
    found = read_json(path, largest)
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} contains a {type(found).__name__}", "it must be a JSON object")
    return found


def inside(folder: Path, name: Any) -> Path:
    """Resolve a path named in another file; it must lie directly in the folder, or be the folder itself."""
    if name == "":
        return folder
    if not isinstance(name, str) or Path(name).name != name or name == "..":
        raise CheckpointError(
            f"a file of {folder} points to {str(name)[:80]!r}", "all parts must be in the folder itself"
        )
    return folder / name
