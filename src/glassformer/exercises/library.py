"""The exercises shipped with Glassformer, from easiest to hardest."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise, load

FOLDER = Path(__file__).parent / "embedded"


def _paths() -> dict[str, Path]:
    """Map names to files. Files are numbered by difficulty; the name follows the number."""
    return {path.stem.partition("-")[2]: path for path in sorted(FOLDER.glob("*.yaml"))}


def names() -> tuple[str, ...]:
    return tuple(_paths())


def get(name: str) -> Exercise:
    """Return an embedded exercise by name."""
    paths = _paths()
    if name not in paths:
        raise InputError(f"there is no exercise {name!r}", f"choose one of {', '.join(paths)}")
    return load(paths[name])


def text(name: str) -> str:
    """Return the YAML source of an embedded exercise."""
    get(name)
    return _paths()[name].read_text(encoding="utf-8")
