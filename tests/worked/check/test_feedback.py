"""The words of a report."""

from __future__ import annotations

from pathlib import Path

from glassformer.worked import library
from glassformer.worked.check import check
from glassformer.worked.check.feedback import Marked, sections, sentence, shown_name, summary
from glassformer.worked.read import read, read_file
from glassformer.worked.render import render
from glassformer.worked.solve import solve

SAMPLES = Path(__file__).parent.parent / "samples"


def test_praise_where_it_is_due() -> None:
    exercise = library.get("causal")
    said = list(summary(check(exercise, read(render(solve(exercise), "markdown")))))
    assert said == ["Score 100 % of 69 numbers.", "Well done: every number is right."]


def test_sections_of_real_homework() -> None:
    report = check(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    found = {section.title: section.items for section in sections(report) if section.items}
    assert list(found) == [
        "", "What went wrong", "Step by step", "Sums in your text", "Could not be read", "Crossed out, so not judged",
        "How it was read",
    ]  # fmt: skip
    steps = {item.symbol: item for item in found["Step by step"] if isinstance(item, Marked)}
    assert steps["Q1"].said == "5 right, 1 wrong"
    assert steps["Q1"].sentences == ("row 2, column 2 (line 19): 0 is written, 5 is right.",)
    assert steps["O"].said == "right, given your earlier numbers"


def test_a_sum_that_does_not_hold() -> None:
    report = check(None, read("$$2 \\cdot 3 + 4 = 11$$"))
    assert [sentence(finding) for finding in report.arithmetic] == ["line 1: 2·3 + 4 = 11 does not hold: it is 10."]


def test_what_is_missing_is_counted() -> None:
    said = " ".join(summary(check(library.get("four-tokens"), read("$q_1 = (1, 2)$"))))
    assert "not found: 6 in Q, all of K, all of V, all of S, all of A, all of O." in said


def test_nothing_found_at_all() -> None:
    said = " ".join(summary(check(library.get("four-tokens"), read("$$1 + 1 = 2$$"))))
    assert "None of the steps of this exercise was found" in said


def test_names_as_they_are_displayed() -> None:
    assert shown_name("QKt1") == "Q1·K1ᵀ"
