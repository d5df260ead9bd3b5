"""The summary of a class: the distribution of points, the steps that lose most, and the mistakes, with how often.

Steps and mistakes are those that grading found; points include overrides. Submissions without points are listed with
their reason and count in no average.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glassformer import templates
from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.rubric import Rubric, StepPoints, award, format_points
from glassformer.exercises.grade.submissions import Submission
from glassformer.exercises.grade.view import FORMATS, named, plain_markdown, shown_name
from glassformer.exercises.plan import plan

BINS = 10
BAR = 40  # characters of the longest bar


@dataclass(frozen=True, slots=True)
class StepSummary:
    """A step: points lost in it on average, the points it has on average, and the submissions that lose some."""

    step: str
    lost: float
    maximum: float
    submissions: int


@dataclass(frozen=True, slots=True)
class MistakeSummary:
    """A mistake: the submissions that make it, and where, most frequent place first."""

    name: str
    submissions: tuple[str, ...]
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A graded class, by submission: `totals` are points, `ungraded` reasons, `misshaped` steps of the wrong size.

    `unexplained` are those with wrong numbers that no known mistake explains; `unused` overrides that do not apply.
    """

    title: str
    maximum: float
    totals: dict[str, float]
    ungraded: dict[str, str]
    steps: tuple[StepSummary, ...]
    mistakes: tuple[MistakeSummary, ...]
    misshaped: dict[str, tuple[str, ...]]
    unexplained: tuple[str, ...]
    unread: dict[str, int]
    overridden: dict[str, tuple[str, ...]]
    unused: tuple[str, ...]

    @property
    def points(self) -> dict[str, float]:
        """Mean, median, standard deviation (with two submissions or more), quartiles, minimum and maximum."""
        values = sorted(self.totals.values())
        if not values:
            return {}
        found = {"mean": statistics.fmean(values), "median": statistics.median(values)}
        if len(values) > 1:
            found["standard deviation"] = statistics.stdev(values)
            found["lower quartile"], _, found["upper quartile"] = statistics.quantiles(values, method="inclusive")
        return {**found, "lowest": values[0], "highest": values[-1]}

    @property
    def histogram(self) -> list[tuple[str, int]]:
        """The number of submissions in each tenth of the points; the last includes the maximum."""
        counts = Counter(min(int(BINS * (total / self.maximum) + 1e-9), BINS - 1) for total in self.totals.values())
        width = 100 // BINS
        return [(f"{width * k}–{width * (k + 1)} %", counts[k]) for k in range(BINS)]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["points"] = {name: round(value, 6) for name, value in self.points.items()}
        data["histogram"] = [{"range": label, "submissions": count} for label, count in self.histogram]
        return data

    def render(self, form: str = "text") -> str:
        """Render the summary as text, markdown, html or json."""
        match form:
            case "json":
                return json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n"
            case "text":
                return _text(self)
            case "markdown":
                return _markdown(self)
            case "html":
                return templates.render("class_summary.html", view=_view(self))
        raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(FORMATS)}")


def summarize(
    submissions: Sequence[Submission], exercise: Exercise, rubric: Rubric | None = None, unused: Sequence[str] = ()
) -> ClassSummary:
    """Summarize graded submissions; `unused` are the overrides that do not apply."""
    rubric = rubric or Rubric()
    made = plan(exercise)
    totals: dict[str, float] = {}
    ungraded: dict[str, str] = {}
    steps: dict[str, list[StepPoints]] = {key: [] for key in rubric.steps}
    mistakes: dict[str, dict[str, list[str]]] = {}
    misshaped: dict[str, tuple[str, ...]] = {}
    unexplained: list[str] = []
    unread: dict[str, int] = {}
    names = _names(submissions)
    for name, item in zip(names, submissions, strict=True):
        grade, points = item.grade, item.points
        if grade is not None and grade.score is not None:
            points = points or award(rubric, made, grade.cells, grade.mistakes)
            for step in points.steps:
                steps.setdefault(step.step, []).append(step)
            for mistake in grade.mistakes:
                mistakes.setdefault(mistake.name, {}).setdefault(name, []).append(named(mistake.where))
            explained = {place for mistake in grade.mistakes for place in mistake.cells}
            wrong = [c for c in grade.cells if c.verdict == "wrong"]
            other = {(c.symbol, c.row - 1, c.column - 1) for c in wrong if c.given is not None} - explained
            unexplained += [name] if other else []
            sizes = tuple(dict.fromkeys(c.symbol for c in wrong if c.given is None))
            misshaped |= {name: sizes} if sizes else {}
        if grade is not None and grade.accounting.unread:
            unread[name] = grade.accounting.unread
        if points is not None:
            totals[name] = points.total
        if grade is None or grade.score is None:
            ungraded[name] = item.error
    count = sum(1 for item in submissions if item.grade is not None and item.grade.score is not None)
    return ClassSummary(
        exercise.title,
        rubric.maximum,
        totals,
        ungraded,
        tuple(sorted((_step(step, found, count) for step, found in steps.items()), key=lambda s: -s.lost)),
        tuple(sorted((_mistake(*item) for item in mistakes.items()), key=lambda m: -len(m.submissions))),
        misshaped,
        tuple(unexplained),
        unread,
        {name: s.points.comments for name, s in zip(names, submissions, strict=True) if s.points and s.points.comments},
        tuple(unused),
    )


def _names(submissions: Sequence[Submission]) -> list[str]:
    """Return the path of each submission below the folder that they have in common."""
    folders = [item.path.absolute().parent for item in submissions]
    common = os.path.commonpath(folders) if folders else ""
    return [str(item.path.absolute().relative_to(common)) for item in submissions]


def _step(step: str, found: Sequence[StepPoints], count: int) -> StepSummary:
    lost = [s.maximum - s.points for s in found]
    total = sum(s.maximum for s in found)
    return StepSummary(step, sum(lost) / max(1, count), total / max(1, count), sum(x > 1e-9 for x in lost))


def _mistake(name: str, by_submission: dict[str, list[str]]) -> MistakeSummary:
    where = Counter(place for places in by_submission.values() for place in dict.fromkeys(places))
    return MistakeSummary(name, tuple(by_submission), tuple(place for place, _ in where.most_common(3)))


# -- what is shown -----------------------------------------------------------------------------------------------------


def _view(summary: ClassSummary) -> dict[str, Any]:
    """Return the contents of the summary as sentences and tables of text, which all formats share."""
    graded = len(summary.totals)
    everyone = len(summary.totals.keys() | summary.ungraded.keys())
    sentences = [f"{_submissions(everyone)}, {graded} with points."]
    points = {name: format_points(value) for name, value in summary.points.items()}
    if points:
        spread = f", standard deviation {points['standard deviation']}" if "standard deviation" in points else ""
        sentences.append(
            f"Points of {format_points(summary.maximum)}: mean {points['mean']}, median {points['median']}{spread}, "
            f"from {points['lowest']} to {points['highest']}."
        )
    worst = next((step for step in summary.steps if step.lost > 1e-9), None)
    if worst is not None:
        sentences.append(f"Most points are lost in {shown_name(worst.step)}: {format_points(worst.lost)} on average.")
    if summary.mistakes:
        times = len(summary.mistakes[0].submissions)
        names = [mistake.name for mistake in summary.mistakes if len(mistake.submissions) == times]
        each = " each" if len(names) > 1 else ""
        sentences.append(
            f"Most frequent mistake{'s' if each else ''}: {', '.join(names)} ({_submissions(times)}{each})."
        )
    most = max((count for _, count in summary.histogram), default=0)
    marked = len(summary.totals) - sum(name in summary.ungraded for name in summary.totals)
    return {
        "title": f"{summary.title}: class summary",
        "sentences": sentences,
        "histogram": [
            {"label": label, "count": count, "share": count / most if most else 0.0}
            for label, count in summary.histogram
        ],
        "steps": [
            (shown_name(s.step), format_points(s.lost), format_points(s.maximum), f"{s.submissions} of {marked}")
            for s in summary.steps
        ],
        "mistakes": [
            (m.name, f"{len(m.submissions)} of {marked}", ", ".join(m.where), _listed(m.submissions))
            for m in summary.mistakes
        ],
        "lists": [
            (title, items)
            for title, items in (
                (
                    "Steps of the wrong size, perhaps from another exercise",
                    [f"{name}: {', '.join(map(shown_name, steps))}" for name, steps in summary.misshaped.items()],
                ),
                ("Wrong numbers that no known mistake explains", list(summary.unexplained)),
                ("Set by hand", [f"{name}: {' '.join(sentences)}" for name, sentences in summary.overridden.items()]),
                ("Overrides that do not apply", list(summary.unused)),
                ("Not graded", [f"{name}: {reason}" for name, reason in summary.ungraded.items()]),
                ("Numbers that could not be read", [f"{name}: {n}" for name, n in summary.unread.items()]),
            )
            if items
        ],
    }


_STEPS = ("step", "points lost", "of", "submissions")
_MISTAKES = ("mistake", "submissions", "where", "who")


def _submissions(count: int) -> str:
    return f"{count} submission{'' if count == 1 else 's'}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _text(summary: ClassSummary) -> str:
    view = _view(summary)
    lines = [view["title"], "=" * len(view["title"]), "", *view["sentences"], ""]
    if summary.totals:
        lines += ["Distribution", "------------"]
        most = max(item["count"] for item in view["histogram"])
        for item in view["histogram"]:
            bar = "█" * (item["count"] if most <= BAR else round(BAR * item["share"]))
            lines.append(f"  {item['label']:>9}  {item['count']:>4}  {bar}")
        lines += [""]
    for title, names, rows in (
        ("Points lost by step, on average", _STEPS, view["steps"]),
        ("Mistakes", _MISTAKES, view["mistakes"]),
    ):
        if rows:
            widths = [max(len(row[k]) for row in (names, *rows)) for k in range(len(names))]
            lines += [title, "-" * len(title)]
            for row in (names, *rows):
                lines.append("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
            lines += [""]
    for title, items in view["lists"]:
        lines += [title, "-" * len(title), *(f"- {item}" for item in items), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _markdown(summary: ClassSummary) -> str:
    view = _view(summary)
    sentences = [f"{plain_markdown(sentence)}  " for sentence in view["sentences"]]
    lines = [f"# {plain_markdown(view['title'])}", "", *sentences, ""]
    histogram = [(item["label"], str(item["count"])) for item in view["histogram"]] if summary.totals else []
    for title, names, rows in (
        ("Distribution", ("points", "submissions"), histogram),
        ("Points lost by step, on average", _STEPS, view["steps"]),
        ("Mistakes", _MISTAKES, view["mistakes"]),
    ):
        if rows:
            lines += [f"## {title}", "", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
            lines += ["| " + " | ".join(plain_markdown(cell) for cell in row) + " |" for row in rows]
            lines += [""]
    for title, items in view["lists"]:
        lines += [f"## {title}", "", *(f"- {plain_markdown(item)}" for item in items), ""]
    return "\n".join(lines).rstrip() + "\n"
