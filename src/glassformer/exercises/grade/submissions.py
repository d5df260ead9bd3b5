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
from glassformer.exercises.grade.verdict import VERDICTS
from glassformer.exercises.grade.view import SUFFIX
from glassformer.exercises.grade.workers import grade_files

RESULTS = "results.csv"
OUTPUTS = frozenset([RESULTS, "summary.md", "results.json"])
REPORT = "-feedback"  # so that reports beside the submissions neither overwrite them nor get graded themselves


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission: its grade, or the reason why it could not be graded."""

    path: Path
    grade: Grade | None
    error: str = ""

    def render(self, form: str = "text") -> str:
        """Render the report, or the reason if the submission could not be graded."""
        if self.grade is not None:
            return self.grade.render(form)
        if form == "json":
            return json.dumps({"name": self.path.name, "score": None, "error": self.error}, ensure_ascii=False) + "\n"
        said = f"This could not be graded: {self.error}"
        if form == "html":
            return templates.render("message.html", title=self.path.name, paragraphs=[said])
        return f"{self.path.name}\n\n{said}\n"


def submissions(paths: Iterable[Path]) -> list[Path]:
    """Expand folders to all files in them, except hidden files, results and reports; files are kept as they are."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file {str(path)!r}", "give a document, or a folder of them")
        if not path.is_dir():
            found.append(path)
            continue
        inside = [p for p in sorted(path.rglob("*")) if p.is_file()]
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
) -> Iterator[Submission]:
    """Grade each submission in a child process; errors are reported per submission."""
    paths = list(paths)
    for path, (made, error) in zip(paths, grade_files(exercise, paths, decimal_comma=decimal_comma), strict=True):
        if made is not None and made.score is None and made.title:
            error = "nothing to grade: none of the steps of this exercise was found"
        yield Submission(path, made, error)
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
    """Return results.csv: submission, score, a count of each verdict, mistakes, unread parts, reason for no grade."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["submission", "score", *VERDICTS, "mistakes", "unread", "feedback", "error"])
    for item in graded:
        made = item.grade
        if made is None:
            empty = [""] * (len(VERDICTS) + 3)
            writer.writerow([_safe(str(item.path)), *empty, files[item.path], _safe(item.error)])
            continue
        counts = made.count()
        score = "" if made.score is None else f"{made.score:.4f}"
        mistakes = "; ".join(f"{mistake.name} ({mistake.where})" for mistake in made.mistakes)
        row = [score, *(counts[v] for v in VERDICTS), mistakes, made.accounting.unread, files[item.path], item.error]
        writer.writerow([_safe(str(item.path)), *row])
    return out.getvalue()


def _safe(text: str) -> str:
    """Escape text, such as a file name, so that a spreadsheet does not interpret it as a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text
