"""The exercises shipped with Glassformer, from easiest to hardest."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise, load_exercise

FOLDER = Path(__file__).parent / "embedded"


@cache
def _paths() -> dict[str, Path]:
    """Map names to files. Files are numbered by difficulty; the name follows the number."""
    return {path.stem.partition("-")[2]: path for path in sorted(FOLDER.glob("*.yaml"))}


def names() -> tuple[str, ...]:
    return tuple(_paths())


@cache
def get(name: str) -> Exercise:
    """Return an embedded exercise by name."""
    return load_exercise(_path(name))


def text(name: str) -> str:
    """Return the YAML source of an embedded exercise."""
    return _path(name).read_text(encoding="utf-8")


def _path(name: str) -> Path:
    if name not in names():
        raise InputError(f"there is no exercise {name!r}", f"choose one of {', '.join(names())}")
    return _paths()[name]
