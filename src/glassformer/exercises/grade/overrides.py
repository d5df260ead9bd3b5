"""Manual overrides: points that a teacher sets by hand, kept in a CSV file that grading reads but never changes.

    submission,step,points,comment
    ada.md,total,18,explained orally
    ben.pdf,S,4,
    cleo.md,"A[1,2]",1,the 7 was read as a 1

`step` is `total`, a step of the rubric, or a cell; the points of a cell are a fraction between 0 and 1.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expression import shorten
from glassformer.exercises.grade.rubric import TOTAL, Place, Points, Rubric, award, format_points
from glassformer.exercises.grade.submissions import Submission, spreadsheet_safe
from glassformer.exercises.plan import plan
from glassformer.exercises.safe_yaml import read_text

COLUMNS = ("submission", "step", "points", "comment")
EMPTY = ",".join(COLUMNS) + "\n"  # the file that a teacher starts with
Unused = list[tuple[int, str]]  # lines of the file, and why they do not apply
_CELL = re.compile(r"(\w+)\s*\[\s*(\d{1,4})\s*[,;]\s*(\d{1,4})\s*\]")


@dataclass(frozen=True, slots=True)
class Override:
    """One row of the file, with its line."""

    line: int
    submission: str
    step: str
    points: float
    comment: str = ""

    @property
    def cell(self) -> Place | None:
        found = _CELL.fullmatch(self.step)
        return (found[1], int(found[2]), int(found[3])) if found else None

    def refused(self, reason: str) -> tuple[int, str]:
        return self.line, f"line {self.line} ({shorten(self.submission, 40)}, {shorten(self.step, 20)}): {reason}"

    def sentence(self, what: str, graded: str = "") -> str:
        comment = f" {self.comment.rstrip('.')}." if self.comment else ""
        return f"{what} was set by hand{f' (the grader gave {graded})' if graded else ''}.{comment}"


def read_overrides(path: Path) -> tuple[Override, ...]:
    """Read the file, as written by hand or saved by a spreadsheet (also with semicolons and decimal commas)."""
    text = read_text(path)
    header = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file ({error})", f"give it the columns {', '.join(COLUMNS)}") from None
    names = [name.strip().lower() for name in rows[0][1]] if rows else []
    lacking = [name for name in COLUMNS[:3] if name not in names]
    if lacking:
        raise InputError(f"{path} has no column {lacking[0]!r}", f"give it the columns {', '.join(COLUMNS)}")
    return tuple(
        _override(path, line, dict(zip(names, row, strict=False)))
        for line, row in rows[1:]
        if any(cell.strip() for cell in row)
    )


def _override(path: Path, line: int, row: dict[str, str]) -> Override:
    submission, step, written = (row.get(name, "").strip() for name in COLUMNS[:3])
    try:
        points = float(written.replace(",", "."))
    except ValueError:
        points = math.nan
    if not math.isfinite(points) or points < 0:
        raise InputError(f"{path}, line {line}: the points are {shorten(written)!r}", "write a number, 0 or more")
    if not submission:
        raise InputError(f"{path}, line {line} does not name a submission", "write its file name, as in results.csv")
    return Override(line, submission, step or TOTAL, points, " ".join(row.get("comment", "").split()))


def apply(
    submissions: Sequence[Submission],
    overrides: Sequence[Override],
    exercise: Exercise | None,
    rubric: Rubric | None = None,
) -> tuple[list[Submission], list[str]]:
    """Return the submissions with their overrides, and why each override that does not apply does not."""
    unused: Unused = []
    chosen: dict[Path, dict[str, Override]] = {}
    for override in overrides:
        found = [item for item in submissions if _names(override.submission, item.path)]
        if len(found) != 1:
            several = f"{len(found)} submissions have this name: write more of the path"
            unused.append(override.refused(several if found else "there is no such submission"))
            continue
        mine = chosen.setdefault(found[0].path, {})
        key = str(override.cell or override.step)
        if key in mine:
            unused.append(mine[key].refused(f"line {override.line} replaces it"))
        mine[key] = override
    changed = []
    for item in submissions:
        found_here = tuple(chosen.get(item.path, {}).values())
        changed.append(_overridden(item, found_here, exercise, rubric or Rubric(), unused) if found_here else item)
    return changed, [sentence for _, sentence in sorted(unused)]


def _names(written: str, path: Path) -> bool:
    """Return whether a path of the file refers to a submission, whatever the folder that grading was started in."""
    if written in (str(path), spreadsheet_safe(str(path))):
        return True
    here, there = path.parts[::-1], Path(written.replace("\\", "/")).parts[::-1]
    if there and there[0] == spreadsheet_safe(path.name):
        there = (path.name, *there[1:])
    return bool(there) and all(a == b for a, b in zip(here, there, strict=False))


def _overridden(
    item: Submission, overrides: Sequence[Override], exercise: Exercise | None, rubric: Rubric, unused: Unused
) -> Submission:
    grade = item.grade
    if grade is None or grade.score is None or exercise is None:
        points = Points(0.0, rubric.maximum)
        for override in overrides:
            if override.step != TOTAL:
                unused.append(override.refused("the submission could not be graded: only its total can be set"))
    else:
        made = plan(exercise)
        graded = award(rubric, made, grade.cells, grade.mistakes)
        places = {(cell.symbol, cell.row, cell.column) for cell in grade.cells}
        cells = dict(_cells(overrides, places, unused))
        points = award(rubric, made, grade.cells, grade.mistakes, {at: one.points for at, one in cells.items()})
        sentences = tuple(one.sentence(f"{one.step} ({format_points(one.points)} of 1)") for one in cells.values())
        points = _steps(replace(points, graded=graded.total, comments=sentences), overrides, rubric, unused)
    points = _total(points, overrides, unused)
    if not points.comments:
        return item
    score = points.share if grade is not None and grade.score is not None else None
    return replace(item, grade=grade and replace(grade, points=points, score=score), points=points)


def _cells(
    overrides: Sequence[Override], places: set[Place], unused: Unused
) -> Iterator[tuple[Place, Override]]:
    for override in overrides:
        place = override.cell
        if place is None:
            continue
        if place not in places:
            unused.append(override.refused("this cell is not among the graded numbers"))
        elif override.points > 1:
            most = "is more than 1, the most that a cell can count"
            unused.append(override.refused(f"{format_points(override.points)} {most}"))
        else:
            yield place, override


def _steps(
    points: Points, overrides: Sequence[Override], rubric: Rubric, unused: Unused
) -> Points:
    steps = {step.step: step for step in points.steps} if points.declared else {}
    comments = list(points.comments)
    for override in overrides:
        if override.cell is not None or override.step == TOTAL:
            continue
        step = steps.get(override.step)
        if step is None:
            unused.append(override.refused("the rubric gives no points to this step"))
        elif override.points > step.maximum:
            unused.append(override.refused(f"the step has only {format_points(step.maximum)} points"))
        else:
            what = f"{step.step} ({format_points(override.points)} of {format_points(step.maximum)})"
            comments.append(override.sentence(what, format_points(step.points)))
            steps[override.step] = replace(step, points=override.points, graded=step.points)
    if len(comments) == len(points.comments):
        return points
    total = rubric.rounded(math.fsum(step.points for step in steps.values()))
    return replace(points, total=total, steps=tuple(steps.values()), comments=tuple(comments))


def _total(points: Points, overrides: Sequence[Override], unused: Unused) -> Points:
    for override in overrides:
        if override.step != TOTAL:
            continue
        if override.points > points.maximum:
            unused.append(override.refused(f"the exercise has only {format_points(points.maximum)} points"))
            continue
        graded = "" if points.graded is None else format_points(points.graded)
        total, maximum = format_points(override.points), format_points(points.maximum)
        sentence = override.sentence(f"The total ({total} of {maximum})", graded)
        points = replace(points, total=override.points, comments=(*points.comments, sentence))
    return points
