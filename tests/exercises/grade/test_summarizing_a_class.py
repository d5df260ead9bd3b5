"""The summary of a class."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.class_summary import ClassSummary, summarize
from glassformer.exercises.grade.grade import Grade, grade
from glassformer.exercises.grade.overrides import Override, apply
from glassformer.exercises.grade.rubric import Rubric, load_rubric
from glassformer.exercises.grade.submissions import Submission
from glassformer.exercises.reader import read

EXERCISE = library.get("four-tokens")
RUBRIC = load_rubric("steps: {Q: 4, S: 6}\n")
Q = [[1, 2], [2, 0], [0, 1], [1, 1]]
S = [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]
CLASS = {
    "ada.md": {"Q": Q, "S": S},
    "ben.md": {"Q": [[1, 2], [2, 7], [0, 1], [1, 1]], "S": S},
    "cleo.md": {"Q": [[1, 2], [-2, 0], [0, 1], [1, 1]], "S": S},
    "dan.md": {"Q": [[9, 2], [2, 0], [0, 1], [1, 1]], "S": S},
}
HOSTILE = "<script>alert(1)</script>|`$[x](y).md"


def check(exercise: Exercise, answers: dict[str, Any], rubric: Rubric | None = None) -> Grade:
    """Grade in this process, which is faster than gf.check."""
    return grade(exercise, read(json.dumps(answers), "answers", "json"), rubric)


def summary(rubric: object = RUBRIC, extra: str = "photo.png") -> ClassSummary:
    items = []
    for name, answers in CLASS.items():
        made = check(EXERCISE, answers, rubric=rubric)  # type: ignore[arg-type]
        items.append(Submission(Path("class") / name, made, "", made.points))
    items.append(Submission(Path("class") / extra, None, f"{extra} is a photo"))
    by_hand = [Override(2, "dan.md", "total", 10, extra), Override(3, "eve.md", "total", 1)]
    items, unused = apply(items, by_hand, EXERCISE, rubric)  # type: ignore[arg-type]
    return summarize(items, EXERCISE, rubric, unused)  # type: ignore[arg-type]


def test_points_steps_and_mistakes() -> None:
    found = summary()
    values = [10, 9.5, 9.5, 10]
    assert list(found.totals.values()) == values
    assert found.points["mean"] == statistics.fmean(values)
    assert found.points["standard deviation"] == pytest.approx(statistics.stdev(values))
    assert found.histogram[-1] == ("90–100 %", 4)
    assert [(s.step, s.lost, s.maximum, s.submissions) for s in found.steps] == [("Q", 0.375, 4, 3), ("S", 0, 6, 0)]
    counts = {m.name: m.submissions for m in found.mistakes}
    assert counts == {
        "one wrong number": ("ben.md", "dan.md"),
        "a sign dropped": ("cleo.md",),
    }
    assert found.ungraded == {"photo.png": "photo.png is a photo"}
    assert list(found.overridden) == ["dan.md"]
    assert found.unused == ("line 3 (eve.md, total): there is no such submission",)


def test_without_a_rubric_points_lost_by_step_add_up() -> None:
    found = summary(None)
    assert found.maximum == 100
    graded = [check(EXERCISE, answers).score for answers in CLASS.values()]
    mean = statistics.fmean(100 * score for score in graded if score is not None)
    assert sum(step.lost for step in found.steps) == pytest.approx(100 - mean)
    assert sum(step.maximum for step in found.steps) == pytest.approx(100)


def test_text_and_json() -> None:
    text = summary().render("text")
    assert "Points of 10: mean 9.75, median 9.75, standard deviation 0.29, from 9.5 to 10." in text
    assert "Most points are lost in Q: 0.38 on average." in text
    assert "Most frequent mistake: one wrong number (2 submissions)." in text
    assert "90–100 %     4  ████" in text
    data = json.loads(summary().render("json"))
    assert data["points"]["median"] == 9.75
    assert data["mistakes"][0]["submissions"] == ["ben.md", "dan.md"]


def test_mistakes_that_are_equally_frequent_are_all_named() -> None:
    found = summary()
    one = tuple(replace(mistake, submissions=("ben.md",)) for mistake in found.mistakes)
    text = replace(found, mistakes=one).render("text")
    assert "Most frequent mistakes: one wrong number, a sign dropped (1 submission each)." in text


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_names_and_comments_are_no_markup() -> None:
    page = Text()
    page.feed(summary(extra=HOSTILE).render("html"))
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 3
    markdown = summary(extra=HOSTILE).render("markdown")
    assert "<script>" not in markdown.replace("\\<script\\>", "")
    assert "\\|\\`\\$\\[x\\](y).md" in markdown


def test_a_class_without_points() -> None:
    found = summarize([Submission(Path("a.md"), None, "empty")], EXERCISE)
    assert found.points == {}
    for form in ("text", "markdown", "html", "json"):
        assert "empty" in found.render(form)


def test_work_on_another_exercise_is_distinguished_from_wrong_numbers() -> None:
    made = check(EXERCISE, {"Q": [[1, 2, 3]], "S": S})
    found = summarize([Submission(Path("a.md"), made)], EXERCISE)
    assert found.misshaped == {"a.md": ("Q",)}
    assert found.unexplained == ()
    assert "Steps of the wrong size, perhaps from another exercise\n" in found.render("text")
