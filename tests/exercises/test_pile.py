"""A teacher's pile: submissions in many forms, right and wrong, with the verdicts they deserve.

A folder has the submissions for one exercise: the file of its name beside it, or an embedded one. `pile/expected.csv`
has for each submission the number of cells with each verdict, the number of unread numbers and the mistakes. j/j04.txt
calls its weights W and takes the softargmax over the wrong axis, so they are listed as unread.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.grade import grade
from glassformer.exercises.grade.rubric import essential
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import Reading, read, read_file

PILE = Path(__file__).parent / "pile"
VERDICTS = ("right", "follows", "rounded", "wrong", "missing")
TABLE = (PILE / "expected.csv").read_text(encoding="utf-8").splitlines()
EXPECTED = {row["submission"]: row for row in csv.DictReader(TABLE)}


def graded(name: str, reading: Reading) -> dict[str, str]:
    folder = PILE / name.partition("/")[0]
    path = folder.with_suffix(".yaml")
    found = grade(load_exercise(path) if path.exists() else library.get(folder.name), reading)
    counts, accounts = found.count(), found.accounting
    assert accounts.total == accounts.graded + accounts.arithmetic + accounts.recognised + accounts.unread
    assert len(found.render("text")) <= max(1500, found.length)
    return {
        "submission": name, **{verdict: str(counts[verdict]) for verdict in VERDICTS}, "unread": str(accounts.unread),
        "mistakes": "; ".join(f"{mistake.name}: {mistake.where}" for mistake in found.mistakes),
    }  # fmt: skip


def test_every_submission_has_an_expectation() -> None:
    assert {path.relative_to(PILE).as_posix() for path in PILE.glob("*/*")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_submission_is_graded_as_planted(name: str) -> None:
    assert graded(name, read_file(PILE / name)) == EXPECTED[name]


def test_windows_1252_is_read_and_said() -> None:
    name = "a/a05_german.txt"
    reading = read((PILE / name).read_text(encoding="utf-8").encode("cp1252"), name)
    assert "Windows-1252" in reading.notes[0].assumption
    assert graded(name, reading) == EXPECTED[name]


def test_the_pile_covers_every_essential_step() -> None:
    exercises = [load_exercise(path) for path in PILE.glob("*.yaml")]
    assert {"Q", "K", "V", "S", "A", "O"} <= {symbol for exercise in exercises for symbol in essential(plan(exercise))}
