"""Assertions on a learner's working, for pytest, nbgrader and Otter.

    from glassformer.testing import assert_working
    assert_working("four-tokens", {"S": S, "A": A})     # an AssertionError names the mistake

pytest is not required; with it, the plugin `glassformer.pytest_plugin` also offers the function as a fixture.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import GlassError, InputError

if TYPE_CHECKING:
    from glassformer.exercises.exercise import Exercise
    from glassformer.exercises.grade import Grade

DIGITS = 6  # significant digits of floats that are too large for decimals


def assert_working(
    exercise: Exercise | Path | str,
    answers: Mapping[str, Any] | Path | str,
    *,
    require: str | Iterable[str] = (),
    decimals: int = 4,
) -> None:
    """Assert that every number of a learner's working is right, or follows from the learner's earlier numbers.

    `exercise`: an Exercise, a YAML file, or the name of an embedded one. `answers`: a dictionary of symbols to numbers
    (nested lists, NumPy arrays or tensors; an array of shape (heads, …) covers all heads), a document as text, or the
    Path of a file. Steps that are not given do not count as missing, except those named in `require`.

    Floating-point numbers are compared to `decimals` decimals: an error of one unit in the last of them is accepted.
    Strings such as "0.1967" and the numbers of documents are graded as written.

    Raises AssertionError with the mistake if one explains the wrong numbers, and with the wrong cells otherwise.
    """
    __tracebackhide__ = True
    from glassformer.exercises.grade.grade import find_exercise
    from glassformer.exercises.grade.rubric import Rubric, StepRubric
    from glassformer.exercises.plan import plan

    if not 0 <= decimals <= 12:
        raise InputError(f"decimals is {decimals}", "choose 0 to 12")
    found = find_exercise(exercise)
    steps = {key: StepRubric(points=1) for key in ([require] if isinstance(require, str) else require)}
    wanted = [symbol for symbols in Rubric(steps=steps).symbols(plan(found)).values() for symbol in symbols]
    try:
        message = "\n".join(_complaints(_grade(found, answers, decimals), wanted))
    except GlassError as error:  # the exercise is valid, so the answers cannot be read
        message = str(error)
    if message:
        raise AssertionError(message)


def _grade(exercise: Exercise, answers: Mapping[str, Any] | Path | str, decimals: int) -> Grade:
    """Grade in this process, which runs the learner's code already."""
    from glassformer.exercises.grade import grade
    from glassformer.exercises.grade.rubric import Rubric
    from glassformer.exercises.reader import read, read_file

    if not isinstance(answers, Mapping):
        return grade(exercise, read_file(answers) if isinstance(answers, Path) else read(answers + "\n", "answers"))
    written = dict(_written(answers, len(exercise.all_heads), decimals))
    if not written:
        raise AssertionError("there are no answers: give a dictionary of symbols to numbers")
    rounded = any(_has_float(value) for value in answers.values())
    reading = read(json.dumps(written), "answers", "json")
    graded = grade(exercise, reading, Rubric(tolerance=10.0**-decimals) if rounded else None)
    return replace(graded, cells=tuple(replace(cell, line=None) for cell in graded.cells))  # a dictionary has no lines


def _written(answers: Mapping[str, Any], heads: int, decimals: int) -> Iterator[tuple[str, Any]]:
    """Yield the answers as lists of numbers as text, one entry per head."""
    for symbol, value in answers.items():
        data = value.tolist() if hasattr(value, "tolist") else value
        depth = _depth(data)
        while depth > 2 and len(data) == 1:  # a batch of one
            data, depth = data[0], depth - 1
        if depth == 3 and len(data) == heads:
            for head, matrix in enumerate(data, 1):
                yield f"{symbol}{head}", _texts(matrix, f"{symbol}{head}", decimals)
        elif depth > 2:
            raise AssertionError(f"{symbol} has {depth} axes: a step is a matrix, or one for each of {heads} heads")
        else:
            yield symbol, _texts(data, symbol, decimals)


def _depth(data: Any) -> int:
    return 1 + max((_depth(item) for item in data), default=0) if isinstance(data, list | tuple) else 0


def _texts(data: Any, symbol: str, decimals: int) -> Any:
    if isinstance(data, list | tuple):
        return [_texts(item, symbol, decimals) for item in data]
    if hasattr(data, "tolist"):  # an array within a list
        return _texts(data.tolist(), symbol, decimals)
    if not isinstance(data, float):
        return str(int(data)) if isinstance(data, bool) else None if data is None else str(data)
    if math.isnan(data):
        raise AssertionError(f"{symbol} contains NaN")
    if math.isinf(data):
        return "-inf" if data < 0 else "inf"
    return f"{data:.{decimals}f}" if abs(data) < 10.0 ** (DIGITS - 1) else f"{data:.{DIGITS - 1}e}".replace("e+", "e")


def _has_float(value: Any) -> bool:
    if hasattr(value, "tolist"):
        value = value.tolist()
    return any(map(_has_float, value)) if isinstance(value, list | tuple) else isinstance(value, float)


def _complaints(grade: Grade, wanted: Sequence[str]) -> Iterator[str]:
    from glassformer.exercises.grade.view import shown_name, view

    given = {cell.symbol for cell in grade.cells if cell.given is not None}
    wrong = [cell for cell in grade.cells if cell.verdict in ("wrong", "rounded") and cell.given is not None]
    if not given and not grade.unread:
        yield "no step of the exercise was found in the answers"
    yield from view(grade).mistakes
    for cell in wrong[:3]:
        place = f"{shown_name(cell.symbol)}[{cell.row},{cell.column}]"
        yield f"{place} is {cell.given}, {cell.follows or cell.expected} is right."
    if len(wrong) > 3:
        yield f"{len(wrong)} numbers are wrong in all."
    yield from (f"{shown_name(symbol)} is required and was not found." for symbol in wanted if symbol not in given)
    yield from (f"line {item.line}: {item.source}: {item.reason}." for item in grade.unread)
