"""The exercises that come with Glassformer, from the easiest to the hardest."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import InputError
from glassformer.worked.problem import Exercise, load

FOLDER = Path(__file__).parent / "exercises"


def _paths() -> dict[str, Path]:
    """Files are numbered by difficulty; the name is what follows the number."""
    return {path.stem.partition("-")[2]: path for path in sorted(FOLDER.glob("*.yaml"))}


def names() -> tuple[str, ...]:
    return tuple(_paths())


def get(name: str) -> Exercise:
    """An embedded exercise by its name."""
    paths = _paths()
    if name not in paths:
        raise InputError(f"there is no exercise {name!r}", f"choose one of {', '.join(paths)}")
    return load(paths[name])


def text(name: str) -> str:
    """The YAML of an embedded exercise."""
    get(name)
    return _paths()[name].read_text(encoding="utf-8")
