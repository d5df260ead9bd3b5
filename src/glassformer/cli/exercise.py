"""Find the exercise of a command: a file, standard input, or an embedded exercise by name."""

from __future__ import annotations

import sys
from pathlib import Path

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, load_exercise


def find_exercise(source: str) -> Exercise:
    if source == "-":
        return load_exercise(sys.stdin.read(2_000_000) + "\n")
    if source in library.names():
        return library.get(source)
    path = Path(source)
    if not path.exists():
        raise InputError(
            f"there is no file {source!r}", f"give a YAML file, or one of the embedded {', '.join(library.names())}"
        )
    return load_exercise(path)
