"""Gradescope: results.json of a submission, and the autograder that Gradescope runs on each one.

The format is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/. Students see the points and the
mark of every number and the name of each mistake immediately, and the right values after the due date: until then they
may resubmit. Gradescope hides the total while any test case is hidden, so the output states it.

An autograder is a zip of `setup.sh`, `run_autograder`, the exercise, the rubric, and the part of this package that
grades, so that it grades exactly like the version that created it.

    python -m glassformer.exercises.grade.gradescope /autograder    # what run_autograder runs
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise, load_exercise
from glassformer.exercises.grade.grade import Grade
from glassformer.exercises.grade.rubric import Rubric, load_rubric
from glassformer.exercises.grade.submissions import Submission, grade_all, submissions
from glassformer.exercises.grade.view import marked, outline, shown_name
from glassformer.exercises.plan import plan
from glassformer.exercises.practice.sheet import exercise_yaml

PACKAGE = Path(__file__).parents[2]
PARTS = ("__init__.py", "errors.py", "lazy.py", "templates", "exercises")
REQUIREMENTS = (
    "pydantic", "pyyaml", "python-flint", "jinja2", "nbformat", "pdfminer.six", "python-docx", "openpyxl",
)  # fmt: skip
SETUP = """#!/usr/bin/env bash
# Run once by Gradescope, as root, when it builds the image of the autograder.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
python=python3
if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    apt-get update
    apt-get install -y software-properties-common
    add-apt-repository -y ppa:deadsnakes/ppa
    apt-get install -y python3.12 python3.12-venv
    python=python3.12
fi
"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$root/source/requirements.txt"
"""
RUN = """#!/usr/bin/env bash
# Run by Gradescope for every submission: grades $root/submission and writes $root/results/results.json.
root="${AUTOGRADER_ROOT:-/autograder}"
cd "$root/source" && exec "$root/venv/bin/python" -m glassformer.exercises.grade.gradescope "$root"%s
"""


def results(graded: Sequence[Submission], rubric: Rubric | None = None) -> dict[str, Any]:
    """Return results.json of one submission; of several files the one with the most points counts."""
    rubric = rubric or Rubric()
    best = max(graded, key=lambda item: -1.0 if item.grade is None else item.grade.score or 0.0)
    grade = best.grade
    refused = [f"{item.path.name} could not be graded: {item.error}" for item in graded if item.error]
    if grade is None or grade.score is None:
        return _nothing("\n".join(refused))
    counted = [f"{best.path.name} counts, the best of {len(graded)} files."] if len(graded) > 1 else []
    score = grade.points.total if grade.points is not None else rubric.maximum * grade.score
    details = {
        "name": "Feedback with the right values",
        "output": grade.render("text"), "output_format": "text", "visibility": "after_due_date",
    }  # fmt: skip
    return {
        "score": round(score, 4),
        "output": "\n".join([*counted, *refused, *outline(grade)]),
        "output_format": "text",
        "tests": [*_tests(grade, score, rubric), details],
        "extra_data": {"glassformer": __version__, "mistakes": [mistake.name for mistake in grade.mistakes]},
    }


def _nothing(reason: str) -> dict[str, Any]:
    return {"score": 0.0, "output": reason, "output_format": "text", "tests": []}


def _tests(grade: Grade, score: float, rubric: Rubric) -> Iterator[dict[str, Any]]:
    """One test per step of the rubric, or one for the whole exercise."""
    texts = marked(grade)
    if grade.points is None or not grade.points.declared:
        yield _test(grade.title, score, rubric.maximum, "\n\n".join(texts.values()))
        return
    for step in grade.points.steps:
        heads = [text for symbol, text in texts.items() if step.step in (symbol, symbol.rstrip("0123456789"))]
        absent = f"not written, credited from {shown_name(step.source)}" if step.source else "not found"
        yield _test(shown_name(step.step), step.points, step.maximum, "\n\n".join(heads) or absent)


def _test(name: str, score: float, maximum: float, output: str) -> dict[str, Any]:
    return {
        "name": name, "score": round(score, 4), "max_score": maximum, "output": output, "output_format": "text",
        "status": "passed" if score >= maximum - 1e-9 else "failed", "visibility": "visible",
    }  # fmt: skip


# -- the autograder ----------------------------------------------------------------------------------------------------


def autograder(exercise: Exercise, rubric: Rubric | None = None, *, decimal_comma: bool = False) -> bytes:
    """Return autograder.zip, ready to upload to Gradescope."""
    if rubric is not None:
        rubric.symbols(plan(exercise))  # an unknown step is an error now, not for the first student
    files: dict[str, bytes] = {
        "setup.sh": SETUP.encode(),
        "run_autograder": (RUN % (" --decimal-comma" if decimal_comma else "")).encode(),
        "requirements.txt": "".join(f"{_pinned(name)}\n" for name in REQUIREMENTS).encode(),
        "exercise.yaml": exercise_yaml(exercise).encode(),
    }
    if rubric is not None:  # JSON is YAML
        files["rubric.yaml"] = rubric.model_dump_json(indent=1, exclude_unset=True).encode() + b"\n"
    for part in PARTS:
        for path in sorted((PACKAGE / part).rglob("*")) if (PACKAGE / part).is_dir() else [PACKAGE / part]:
            if path.is_file() and path.suffix != ".pyc":
                files[f"glassformer/{path.relative_to(PACKAGE).as_posix()}"] = path.read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)  # with a fixed date: the same exercise gives the same zip
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o100755 if name in ("setup.sh", "run_autograder") else 0o100644) << 16
            archive.writestr(info, data)
    return out.getvalue()


def _pinned(name: str) -> str:
    try:
        return f"{name}=={version(name)}"
    except PackageNotFoundError:
        return name


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Grade ROOT/submission and write ROOT/results/results.json.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--decimal-comma", action="store_true")
    args = parser.parse_args(arguments)
    source = args.root / "source"
    exercise = load_exercise(source / "exercise.yaml")
    rubric = load_rubric(source / "rubric.yaml") if (source / "rubric.yaml").exists() else None
    try:
        paths = submissions([args.root / "submission"])
    except InputError:
        found = _nothing("The submission has no files: hand in a document, such as a PDF, a notebook or a text file.")
    else:
        found = results(list(grade_all(exercise, paths, decimal_comma=args.decimal_comma, rubric=rubric)), rubric)
    folder = args.root / "results"
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
