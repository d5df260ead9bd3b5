"""Batch grading: one row of results and one report per submission; a broken submission never stops the rest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer import templates
from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.grade import Grade
from glassformer.exercises.grade.rubric import MAXIMUM, Points, Rubric, format_points
from glassformer.exercises.grade.verdict import VERDICTS
from glassformer.exercises.grade.view import SUFFIX, named
from glassformer.exercises.grade.workers import grade_files
from glassformer.exercises.plan import plan

RESULTS = "results.csv"
SUMMARY = "class-summary"
OVERRIDES = "overrides.csv"
OUTPUTS = frozenset([RESULTS, OVERRIDES, *(f"{SUMMARY}{suffix}" for suffix in SUFFIX.values())])
REPORT = "-feedback"  # so that reports beside the submissions neither overwrite them nor get graded themselves


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission: its grade, or the reason why it could not be graded; its points with a rubric or an override."""

    path: Path
    grade: Grade | None
    error: str = ""
    points: Points | None = None

    def render(self, form: str = "text") -> str:
        """Render the report, or the reason if the submission could not be graded."""
        if self.grade is not None:
            return self.grade.render(form)
        if form == "json":
            points = {} if self.points is None else {"points": self.points.to_json()}
            data = {"name": self.path.name, "score": None, **points, "error": self.error}
            return json.dumps(data, ensure_ascii=False) + "\n"
        paragraphs = [f"This could not be graded: {self.error}"]
        if self.points is not None:
            points_said = f"{format_points(self.points.total)} of {format_points(self.points.maximum)} points."
            paragraphs = [points_said, *self.points.comments, *paragraphs]
        if form == "html":
            return templates.render("message.html", title=self.path.name, paragraphs=paragraphs)
        return "\n\n".join([self.path.name, *paragraphs]) + "\n"


def submissions(paths: Iterable[Path]) -> list[Path]:
    """Expand folders to all files in them, except hidden files, results and reports; files are kept as they are."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file {str(path)!r}", "give a document, or a folder of them")
        if not path.is_dir():
            found.append(path)
            continue
        inside = [p for p in sorted(path.rglob("*")) if not p.is_dir()]  # also a broken link, which is then refused
        inside = [p for p in inside if p.name not in OUTPUTS and not p.stem.endswith(REPORT)]
        inside = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(path).parts)]
        if not inside:
            raise InputError(f"the folder {str(path)!r} has no documents", "put the submissions into it")
        found += inside
    return found


def grade_all(
    exercise: Exercise | None,
    paths: Iterable[Path],
    done: Callable[[Path], None] = lambda path: None,
    *,
    decimal_comma: bool = False,
    rubric: Rubric | None = None,
) -> Iterator[Submission]:
    """Grade each submission in a child process; errors are reported per submission."""
    if rubric is not None:
        if exercise is None:
            raise InputError("a rubric needs an exercise", "name the exercise before the answers")
        rubric.symbols(plan(exercise))  # an unknown step is reported once, not for every submission
    paths = list(paths)
    results = grade_files(exercise, paths, decimal_comma=decimal_comma, rubric=rubric)
    for path, (made, error) in zip(paths, results, strict=True):
        if made is not None and made.score is None and made.title:
            error = "nothing to grade: none of the steps of this exercise was found"
        yield Submission(path, made, error, made.points if made is not None else None)
        done(path)


def report_names(paths: Iterable[Path], form: str) -> dict[Path, str]:
    """Return one report name per submission, distinguished by folder and extension where names collide."""
    paths = list(paths)
    stems = [path.stem for path in paths]
    found: dict[Path, str] = {}
    for path in paths:
        alone = stems.count(path.stem) == 1
        stem = path.stem if alone else f"{path.parent.name}-{path.stem}{path.suffix.replace('.', '-')}"
        name, number = f"{stem}{REPORT}{SUFFIX[form]}", 2
        while name in found.values():
            name, number = f"{stem}-{number}{REPORT}{SUFFIX[form]}", number + 1
        found[path] = name
    return found


def table(graded: Iterable[Submission], files: dict[Path, str]) -> str:
    """Return results.csv: score, points, a count of each verdict, mistakes, unread numbers, reason for no grade.

    Without a rubric points are out of 100. Text is escaped so that no spreadsheet interprets it as a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ["submission", "score", "points", "max_points", "overridden", *VERDICTS, "mistakes", "unread", "feedback"]
    writer.writerow([*names, "error"])
    for item in graded:
        made = item.grade
        row: list[object] = [str(item.path), *_points(item)]
        if made is None:
            row += [""] * (len(VERDICTS) + 2)
        else:
            counts = made.count()
            mistakes = "; ".join(f"{mistake.name} ({named(mistake.where)})" for mistake in made.mistakes)
            row += [*(counts[v] for v in VERDICTS), mistakes, made.accounting.unread]
        row += [files[item.path], item.error]
        writer.writerow([spreadsheet_safe(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue()


def _points(item: Submission) -> list[object]:
    points, score = item.points, item.grade.score if item.grade is not None else None
    if points is None:
        if score is None:
            return ["", "", "", ""]
        return [f"{score:.4f}", format_points(MAXIMUM * score), format_points(MAXIMUM), ""]
    comments = " ".join(points.comments)
    return [f"{points.share:.4f}", format_points(points.total), format_points(points.maximum), comments]


def spreadsheet_safe(text: str) -> str:
    """Escape text, such as a file name, so that a spreadsheet does not interpret it as a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r\n|%") else text
