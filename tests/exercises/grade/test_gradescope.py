"""Gradescope's results.json and its autograder, by https://gradescope-autograders.readthedocs.io/en/latest/specs/."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, load_exercise
from glassformer.exercises.grade.grade import Grade, grade
from glassformer.exercises.grade.gradescope import PACKAGE, PARTS, autograder, main, results
from glassformer.exercises.grade.rubric import Rubric, load_rubric
from glassformer.exercises.grade.submissions import Submission
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve

Format = Literal["text", "html", "simple_format", "md", "ansi"]
Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
EXERCISE = library.get("four-tokens")
RUBRIC = load_rubric("steps: {Q: 4, S: 6, O: 10}\n")
WRONG = {"Q": [[1, 2], [2, 7], [0, 1], [1, 1]], "S": [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]}


def check(exercise: Exercise, answers: dict[str, Any], rubric: Rubric | None = None) -> Grade:
    """Grade in this process, which is faster than gf.check."""
    return grade(exercise, read(json.dumps(answers), "answers", "json"), rubric)


class Case(BaseModel):
    """A test case, with every key that the specification has."""

    model_config = ConfigDict(strict=True, extra="forbid")
    score: float | None = None
    max_score: float | None = None
    status: Literal["passed", "failed"] | None = None
    name: str | None = None
    name_format: Format | None = None
    number: str | None = None
    output: str | None = None
    output_format: Format | None = None
    tags: list[str] = Field(default_factory=list)
    visibility: Visibility | None = None
    extra_data: dict[str, Any] = Field(default_factory=dict)


class Results(BaseModel):
    """results.json, with every key that the specification has; a score is required here or in each test case."""

    model_config = ConfigDict(strict=True, extra="forbid")
    score: float
    execution_time: int | None = None
    output: str | None = None
    output_format: Format | None = None
    test_output_format: Format | None = None
    test_name_format: Format | None = None
    visibility: Visibility | None = None
    stdout_visibility: Visibility | None = None
    extra_data: dict[str, Any] = Field(default_factory=dict)
    tests: list[Case] = Field(default_factory=list)
    leaderboard: list[dict[str, Any]] = Field(default_factory=list)


def valid(found: dict[str, Any]) -> Results:
    return Results.model_validate_json(json.dumps(found))


def handed_in(answers: dict[str, Any], name: str = "work.md", rubric: object = RUBRIC) -> Submission:
    made = check(EXERCISE, answers, rubric=rubric)  # type: ignore[arg-type]
    return Submission(Path(name), made, "", made.points)


def test_a_test_case_for_each_step() -> None:
    found = valid(results([handed_in(WRONG)], RUBRIC))
    *cases, feedback = found.tests
    assert [(case.name, case.score, case.max_score, case.status) for case in cases] == [
        ("Q", 3.5, 4, "failed"), ("S", 6, 6, "passed"), ("O", 0, 10, "failed"),
    ]  # fmt: skip
    assert found.score == sum(case.score or 0 for case in cases) == 9.5
    assert feedback.visibility == "after_due_date"
    assert cases[2].output == "not found"
    assert (found.output or "").startswith("9.5 of 20 points")  # Gradescope hides the total with the feedback
    assert "Q[2,2]: one wrong number." in (found.output or "")


def test_right_values_wait_for_the_due_date() -> None:
    """The wrong number is marked; what it should be is only said in the case that is shown later."""
    scores = {"S": [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 3, 0, 1]]}
    weights = {**scores, "A": [[0.1966, 0.9999, 0.0723, 0.1966], *[[None] * 4] * 3]}
    rubric = load_rubric("steps: {A: 4}\n")
    found = valid(results([handed_in(weights, rubric=rubric)], rubric))
    shown = (found.output or "") + "".join(case.output or "" for case in found.tests if case.visibility == "visible")
    assert "0.9999✗" in shown
    assert "0.5344" not in shown
    assert "0.5344" in (found.tests[-1].output or "")


def test_without_a_rubric_there_is_one_test_case() -> None:
    found = valid(results([handed_in(WRONG, rubric=None)]))
    assert [case.max_score for case in found.tests] == [100, None]
    assert found.score == found.tests[0].score


def test_the_best_of_several_files_counts_and_the_others_are_named() -> None:
    files = [Submission(Path("photo.png"), None, "a photo"), handed_in(WRONG, "old.md"), handed_in({"O": solved()})]
    found = valid(results(files, RUBRIC))
    assert found.score == 20
    said = "work.md counts, the best of 3 files.\nphoto.png could not be graded: a photo"
    assert (found.output or "").startswith(said)


def solved() -> list[list[str]]:
    return [[x.decimal(4) for x in row] for row in solve(EXERCISE)["O"]]


def test_what_cannot_be_graded_has_no_points_and_a_reason() -> None:
    found = valid(results([Submission(Path("photo.png"), None, "a photo")], RUBRIC))
    assert found.score == 0
    assert found.output == "photo.png could not be graded: a photo"
    found = valid(results([Submission(Path(name), None, "a photo") for name in ("a.png", "b.png")], RUBRIC))
    assert found.output == "a.png could not be graded: a photo\nb.png could not be graded: a photo"


def test_the_zip_has_what_it_needs_at_its_root() -> None:
    data = autograder(EXERCISE, RUBRIC)
    assert data == autograder(EXERCISE, RUBRIC)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        assert {"setup.sh", "run_autograder", "exercise.yaml", "rubric.yaml", "requirements.txt"} <= names
        for name in ("setup.sh", "run_autograder"):
            assert archive.getinfo(name).external_attr >> 16 & 0o111 == 0o111
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n")
        assert solve(load_exercise(archive.read("exercise.yaml").decode())).values == solve(EXERCISE).values
        assert load_rubric(archive.read("rubric.yaml").decode()) == RUBRIC
    sources = {path for part in PARTS for path in [PACKAGE / part, *(PACKAGE / part).rglob("*")] if path.is_file()}
    wanted = {f"glassformer/{path.relative_to(PACKAGE).as_posix()}" for path in sources if path.suffix != ".pyc"}
    assert wanted <= names


def test_an_unknown_step_is_refused_before_the_zip_is_made() -> None:
    with pytest.raises(InputError, match="has no step 'B'"):
        autograder(EXERCISE, load_rubric("steps: {B: 1}\n"))


def test_an_empty_submission(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(autograder(EXERCISE))) as archive:
        archive.extract("exercise.yaml", tmp_path / "source")
    (tmp_path / "submission").mkdir()
    main([str(tmp_path)])
    found = valid(json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8")))
    assert found.score == 0
    assert (found.output or "").startswith("The submission has no files: hand in")


@pytest.mark.slow
def test_the_autograder_runs_as_gradescope_runs_it(tmp_path: Path) -> None:
    """setup.sh once, then run_autograder for each submission; only the root is another than /autograder."""
    root = tmp_path / "autograder"
    (root / "source").mkdir(parents=True)
    (root / "results").mkdir()
    archive = tmp_path / "autograder.zip"
    archive.write_bytes(autograder(EXERCISE, RUBRIC, decimal_comma=True))
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(root / "source")
    shutil.copy(root / "source" / "run_autograder", root)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["AUTOGRADER_ROOT"] = str(root)
    subprocess.run(["bash", str(root / "source" / "setup.sh")], env=environment, cwd=root, check=True)
    for text, score in (("$$q_1 = (1, 2), a_{1,2} = 0,5344$$\n", 1.0), ("I was ill.\n", 0.0)):
        shutil.rmtree(root / "submission", ignore_errors=True)
        (root / "submission").mkdir()
        (root / "submission" / "work.md").write_text(text, encoding="utf-8")
        subprocess.run(["bash", str(root / "run_autograder")], env=environment, cwd=root, check=True)
        found = valid(json.loads((root / "results" / "results.json").read_text(encoding="utf-8")))
        assert (found.score > 0) == (score > 0), found
