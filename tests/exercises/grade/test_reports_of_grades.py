"""The words of a report, and its text, Markdown and HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.grade import grade
from glassformer.exercises.grade.rubric import load_rubric
from glassformer.exercises.grade.view import SHORTEST, sentence, shown_name, summary, view
from glassformer.exercises.grade.view import render as shown
from glassformer.exercises.reader import read, read_file
from glassformer.exercises.solution import render, solve

SAMPLES = Path(__file__).parent.parent / "samples"


def test_praise_where_it_is_due() -> None:
    exercise = library.get("causal")
    said = list(summary(grade(exercise, read(render(solve(exercise), "markdown")))))
    assert said[:2] == ["Score 100 % of 69 numbers.", "Well done: every number is right."]
    assert said[2].endswith("0 unread.")


def test_sections_of_real_homework() -> None:
    graded = grade(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    found = view(graded)
    assert found.summary
    assert found.mistakes
    assert [title for title, _ in found.details] == [
        "Arithmetic in your text", "Could not be read", "Crossed out, so not graded", "Notes",
    ]  # fmt: skip
    steps = {step.symbol: step for step in found.steps}
    assert steps["Q1"].summary == "5 right, 1 wrong"
    assert steps["Q1"].sentences == ("row 2, column 2 (line 19): 0 is written, 5 is right.",)
    assert steps["O"].summary == "right, given your earlier numbers"


def test_a_sum_that_does_not_hold() -> None:
    graded = grade(None, read("$$2 \\cdot 3 + 4 = 11$$"))
    assert [sentence(finding) for finding in graded.arithmetic] == ["line 1: 2·3 + 4 = 11 does not hold: it is 10."]


def test_what_is_missing_is_counted() -> None:
    said = " ".join(summary(grade(library.get("four-tokens"), read("$q_1 = (1, 2)$"))))
    assert "not found: 6 in Q, all 8 of K, all 8 of V, all 16 of S, all 16 of A, all 8 of O." in said


def test_nothing_found_at_all() -> None:
    said = " ".join(summary(grade(library.get("four-tokens"), read("$$1 + 1 = 2$$"))))
    assert "Nothing to grade: none of the steps of this exercise was found" in said


def test_names_as_they_are_displayed() -> None:
    assert shown_name("QKt1") == "Q1·K1ᵀ"


@pytest.mark.golden
@pytest.mark.parametrize("name", ["four-tokens", "two-heads"])
@pytest.mark.parametrize(("form", "suffix"), [("text", "txt"), ("markdown", "md")])
def test_real_homework(golden, name: str, form: str, suffix: str) -> None:  # type: ignore[no-untyped-def]
    golden(f"check/{name}.{suffix}", shown(grade(library.get(name), read_file(SAMPLES / f"{name}.md")), form))


def test_marks_stand_in_the_matrices() -> None:
    text = shown(
        grade(library.get("four-tokens"), read("$$w_{1,1} = 0.1967$$ $$q_1 = (1, 3)$$ $$out_1 = (0, 0.6622)$$"))
    )
    assert "0.1967~" in text
    assert "⎡1  3✗⎤" in text
    assert max(map(len, text.splitlines())) <= 110


def test_html_is_well_formed_escaped_and_fetches_nothing() -> None:
    page = shown(grade(library.get("four-tokens"), read("$$q_1 = (1, 3)$$ and $$<script>x = 2$$")), "html")
    body = page[page.index("<body>") : page.index("</body>") + 7]
    ElementTree.fromstring(body)
    assert "<script" not in page
    assert "http" not in page
    assert '<mtd class="wrong"><mn>3✗' in page


def test_json_and_unknown_formats() -> None:
    graded = grade(library.get("four-tokens"), read("$$q_1 = (1, 3)$$"))
    assert json.loads(shown(graded, "json"))["cells"]
    with pytest.raises(InputError, match="there is no format 'pdf'"):
        shown(graded, "pdf")


def test_a_learners_own_markup_stays_text_in_markdown() -> None:
    text = shown(grade(library.get("four-tokens"), read("$$foo_{1} = 3$$ $$q_1 = (1, 2)$$")), "markdown")
    assert "foo\\_\\{1\\}" in text


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("name", ["four-tokens", "two-heads"])
def test_a_report_is_not_longer_than_the_homework(name: str, form: str) -> None:
    reading = read_file(SAMPLES / f"{name}.md")
    report = grade(library.get(name), reading).render(form)
    assert len(report) <= len(reading.text)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_long_report_is_cut_and_says_so(form: str) -> None:
    """All numbers wrong, in a short text: the first screen stays, the details are counted."""
    wrong = "".join(f"{s}: {[[9.75, 8.25]] * 4}\n" for s in "QKVO") + f"S: {[[7.125] * 4] * 4}\nA: {[[5.5] * 4] * 4}\n"
    report = grade(library.get("four-tokens"), read(wrong, "a.yaml")).render(form)
    assert len(report) <= SHORTEST
    assert re.search(r"\d+ details? left out", report)
    assert report.index("Score 0") < report.index("What went wrong") < report.index("left out")


def test_the_first_screen_names_the_line_of_a_mistake() -> None:
    text = "$$Q = \\begin{bmatrix} 1 & 2 \\\\ 2 & 0 \\\\ 0 & 7 \\\\ 1 & 1 \\end{bmatrix}$$\n"
    first = grade(library.get("four-tokens"), read(f"Homework\n\n{text}")).render().split("Step by step")[0]
    assert "(line 3)" in first


def test_one_number_follows_and_several_follow() -> None:
    graded = grade(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    steps = {step.symbol: step for step in view(graded).steps}
    assert steps["H1"].summary == "5 right, 1 follows from your earlier numbers"
    assert steps["H2"].summary == "1 right, 4 follow from your earlier numbers, 1 wrong"


def test_a_matrix_of_another_size_is_not_counted_as_written() -> None:
    text = "$$Q = \\begin{bmatrix} 1 & 2 & 3 \\end{bmatrix}$$ $$k_1 = (1, 0)$$"
    graded = grade(library.get("four-tokens"), read(text))
    assert "Q: its size should be 4×2 in this exercise, but another size is written." in view(graded).mistakes
    written = [cell for cell in graded.cells if cell.given is not None]
    assert f"of the {len(written)} you wrote" in " ".join(summary(graded))


def test_points_of_a_rubric_are_on_the_first_screen() -> None:
    exercise = library.get("four-tokens")
    rubric = load_rubric("steps: {Q: 2, A: 3}\n")
    graded = grade(exercise, read("$$q_1 = (1, 2)$$"), rubric)
    assert next(iter(summary(graded))) == "0.5 of 5 points: Q 0.5 of 2, A 0 of 3 (not found)."


def test_steps_that_are_right_are_named_and_not_repeated() -> None:
    exercise = library.get("causal")
    report = grade(exercise, read(render(solve(exercise), "markdown"))).render()
    assert "Well done" in report
    assert "Step by step" not in report


def test_the_numbers_graded_and_the_answers_are_reconciled() -> None:
    text = "$S = \\begin{bmatrix} 1 & -\\infty & -\\infty \\\\"
    text += " 2 & 2 & -\\infty \\\\ 3 & 2 & 5 \\end{bmatrix}$\n\n$a_2 = (1/2, 1/2, 0)$\n"
    said = " ".join(str(grade(library.get("causal"), read(text, "a.md"))).split())
    assert "11 are graded (for 12 answers: one such as 1/2 is two numbers and -∞ is none)" in said
