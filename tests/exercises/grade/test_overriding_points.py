"""Points set by hand survive a new grading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.grade import Grade, grade
from glassformer.exercises.grade.overrides import EMPTY, Override, apply, read_overrides
from glassformer.exercises.grade.rubric import Rubric, load_rubric
from glassformer.exercises.grade.submissions import Submission
from glassformer.exercises.reader import read

EXERCISE = library.get("four-tokens")
RUBRIC = load_rubric("steps: {Q: 4, S: 6}\nround_to: 0.5\n")
WRONG = {"Q": [[1, 2], [2, 7], [0, 1], [1, 1]], "S": [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]}


def check(exercise: Exercise, answers: dict[str, Any], rubric: Rubric | None = None) -> Grade:
    """Grade in this process, which is faster than gf.check."""
    return grade(exercise, read(json.dumps(answers), "answers", "json"), rubric)


def graded(name: str = "class/ada.md", rubric: object = RUBRIC) -> Submission:
    made = check(EXERCISE, WRONG, rubric=rubric)  # type: ignore[arg-type]
    return Submission(Path(name), made, "", made.points)


def one(step: str, points: float, submission: str = "ada.md") -> tuple[Submission, list[str]]:
    (item,), unused = apply([graded()], [Override(2, submission, step, points, "seen in class")], EXERCISE, RUBRIC)
    return item, unused


def test_a_total() -> None:
    item, unused = one("total", 10)
    assert unused == []
    assert item.points is not None
    assert (item.points.total, item.points.graded) == (10, 9.5)
    assert item.points.comments == ("The total (10 of 10) was set by hand (the grader gave 9.5). seen in class.",)
    assert item.grade is not None
    assert item.grade.score == 1
    assert "10 of 10 points: Q 3.5 of 4, S 6 of 6.\nThe total (10 of 10) was set by hand" in item.render("text")


def test_a_step() -> None:
    item, unused = one("Q", 4)
    assert unused == []
    assert item.points is not None
    assert item.points.total == 10
    assert "Q 4 of 4 (set by hand, 3.5 by the grader)" in item.render("text")


def test_a_cell() -> None:
    item, unused = one("Q[2,2]", 1)
    assert unused == []
    assert item.points is not None
    assert item.points.total == 10
    item, unused = one("Q[1, 1]", 0)
    assert item.points is not None
    assert item.points.total == 9


def test_a_cell_without_a_rubric() -> None:
    (item,), unused = apply([graded(rubric=None)], [Override(2, "ada.md", "Q[2,2]", 1)], EXERCISE)
    assert unused == []
    assert item.points is not None
    assert item.points.graded is not None
    cells = len(item.grade.cells) if item.grade is not None else 0
    assert item.points.total - item.points.graded == pytest.approx(100 / cells)


def test_a_submission_that_could_not_be_graded_can_have_a_total() -> None:
    photo = Submission(Path("class/photo.png"), None, "a photo")
    rows = [Override(2, "photo.png", "total", 7), Override(3, "photo.png", "Q", 1)]
    (item,), unused = apply([photo], rows, EXERCISE, RUBRIC)
    assert item.points is not None
    assert item.points.total == 7
    assert unused == ["line 3 (photo.png, Q): the submission could not be graded: only its total can be set"]
    assert "7 of 10 points." in item.render("html")


@pytest.mark.parametrize(
    ("step", "points", "submission", "said"),
    [
        ("total", 11, "ada.md", "the exercise has only 10 points"),
        ("Q", 5, "ada.md", "the step has only 4 points"),
        ("A", 1, "ada.md", "the rubric gives no points to this step"),
        ("Q[9,9]", 1, "ada.md", "this cell is not among the graded numbers"),
        ("Q[1,1]", 2, "ada.md", "2 is more than 1, the most that a cell can count"),
        ("total", 1, "eve.md", "there is no such submission"),
        ("total", 1, "other/ada.md", "there is no such submission"),
    ],
)
def test_what_does_not_match_is_reported_and_changes_nothing(
    step: str, points: float, submission: str, said: str
) -> None:
    item, unused = one(step, points, submission)
    assert item == graded()
    assert unused == [f"line 2 ({submission}, {step}): {said}"]


@pytest.mark.parametrize("name", ["class/ada.md", "ada.md", "/home/me/class/ada.md", "class\\ada.md"])
def test_names_match_from_any_folder(name: str) -> None:
    assert one("total", 1, name)[1] == []


def test_names_that_are_not_unique() -> None:
    both = [graded("a/work.md"), graded("b/work.md")]
    items, unused = apply(both, [Override(2, "work.md", "total", 1), Override(3, "b/work.md", "total", 2)], EXERCISE)
    assert unused == ["line 2 (work.md, total): 2 submissions have this name: write more of the path"]
    assert [item.points.total for item in items if item.points] == [9.5, 2]


def test_names_that_were_escaped_for_spreadsheets() -> None:
    assert apply([graded("=ada.md")], [Override(2, "'=ada.md", "total", 1)], EXERCISE)[1] == []
    assert apply([graded("class/=ada.md")], [Override(2, "'=ada.md", "total", 1)], EXERCISE)[1] == []


def test_a_later_line_replaces_an_earlier_one() -> None:
    rows = [Override(2, "ada.md", "total", 1), Override(3, "class/ada.md", "total", 2)]
    (item,), unused = apply([graded()], rows, EXERCISE, RUBRIC)
    assert item.points is not None
    assert item.points.total == 2
    assert unused == ["line 2 (ada.md, total): line 3 replaces it"]


def test_files_of_spreadsheets(tmp_path: Path) -> None:
    path = tmp_path / "overrides.csv"
    path.write_bytes(
        '\ufeffSubmission;Step;Points;Comment\r\nada.md;;7,5;"two\r\nlines"\r\n;;;\r\nben.md;A[1,2];1;\r\n'.encode()
    )
    assert read_overrides(path) == (
        Override(3, "ada.md", "total", 7.5, "two lines"),
        Override(5, "ben.md", "A[1,2]", 1.0, ""),
    )
    path.write_text(EMPTY, encoding="utf-8")
    assert read_overrides(path) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column 'submission'"),
        ("submission,points\n", "has no column 'step'"),
        ("submission,step,points\nada.md,total,many\n", "line 2: the points are 'many'"),
        ("submission,step,points\nada.md,total,-1\n", "line 2: the points are '-1'"),
        ("submission,step,points\nada.md,total,inf\n", "line 2: the points are 'inf'"),
        ("submission,step,points\nada.md\n", "line 2: the points are ''"),
        ("submission,step,points\n,total,1\n", "line 2 does not name a submission"),
        ('submission,step,points\n"ada.md"x,total,1\n', "is not a CSV file"),
        ("\0", "has no column"),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "overrides.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_overrides(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
