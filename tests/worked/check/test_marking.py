"""The whole way: exercises made, solved, rendered and read back; spoilt in one cell; real homework."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.worked import library
from glassformer.worked.check import check
from glassformer.worked.check.marking import check as marked
from glassformer.worked.plan import plan
from glassformer.worked.problem import Exercise
from glassformer.worked.read import read, read_file
from glassformer.worked.render import render
from glassformer.worked.solve import solve

SAMPLES = Path(__file__).parent.parent / "samples"


def assert_all_right(exercise: Exercise, text: str, name: str) -> None:
    report = check(exercise, read(text, name))
    steps = solve(exercise).steps
    assert len(report.cells) == sum(step.value.shape[0] * step.value.shape[1] for step in steps)
    assert {cell.verdict for cell in report.cells} == {"right"}
    assert report.score == 1
    assert report.unread == ()
    assert report.slips == ()
    assert all(finding.verdict == "right" for finding in report.arithmetic)


@given(st.integers(0, 10**6), st.sampled_from(("markdown", "latex")), st.integers(3, 6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_rendered_solution_is_right(maker, seed: int, form: str, digits: int) -> None:  # type: ignore[no-untyped-def]
    exercise = maker.exercise(random.Random(seed))
    text = maker.document(maker.solution(exercise, plan(exercise)), form, digits)
    assert_all_right(exercise, text, "a.md" if form == "markdown" else "a.tex")


@pytest.mark.parametrize("form", ["markdown", "latex"])
@pytest.mark.parametrize("name", library.names())
def test_embedded_exercises_are_right(name: str, form: str) -> None:
    exercise = library.get(name)
    assert_all_right(exercise, render(solve(exercise), form), "a.md" if form == "markdown" else "a.tex")


@given(st.integers(0, 10**6), st.integers(3, 6))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_wrong_cell_leaves_the_rest(maker, seed: int, digits: int) -> None:  # type: ignore[no-untyped-def]
    """The cell is wrong, everything after it follows, everything else is right."""
    spoilt = maker.spoil("one arithmetic slip in one cell", random.Random(seed), "markdown", digits)
    if spoilt is None:
        return
    ((symbol, _),) = spoilt.given.items()
    report = maker.check(spoilt.exercise, spoilt.text)
    wrong = [cell for cell in report.cells if cell.verdict not in ("right", "follows")]
    assert [(cell.symbol, cell.verdict) for cell in wrong] == [(symbol, "wrong")]
    after = set(plan(spoilt.exercise).after(symbol))
    assert {cell.symbol for cell in report.cells if cell.verdict == "follows"} <= after


def test_four_tokens_as_it_was_handed_in() -> None:
    report = check(library.get("four-tokens"), read_file(SAMPLES / "four-tokens.md"))
    verdict = {(c.symbol, c.row, c.column): (c.given, c.verdict) for c in report.cells}
    assert all(v == "right" for (s, _, _), (_, v) in verdict.items() if s in ("Q", "K", "V", "S", "E", "Z"))
    assert verdict["A", 1, 1] == ("0.1967", "rounded")
    assert verdict["A", 1, 2] == ("0.5343", "rounded")
    assert verdict["A", 2, 2] == ("0.7757", "rounded")
    assert verdict["A", 1, 3] == ("0.0723", "right")
    assert verdict["O", 1, 2] == ("0.6624", "follows")
    assert verdict["O", 4, 2] == ("0.6624", "follows")
    assert verdict["O", 2, 2] == ("0.3292", "right")
    assert report.slips == ()
    assert report.unread == ()
    assert "missing" not in report.count()


def test_two_heads_as_they_were_scanned() -> None:
    report = check(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    wrong = {(c.symbol, c.row, c.column): (c.given, c.expected) for c in report.cells if c.verdict == "wrong"}
    assert wrong == {("Q1", 2, 2): ("0", "5"), ("H2", 2, 3): ("9.095", "9.086"), ("C", 1, 2): ("9.017", "8.017")}
    verdicts = {s: {c.verdict for c in report.cells if c.symbol == s} for s in report.symbols()}
    assert all(verdicts[s] == {"right"} for s in ("K1", "V1", "A1", "Q2", "K2", "V2", "QKt2"))
    assert verdicts["A2"] == {"right", "rounded"}
    assert verdicts["O"] == {"follows"}
    said = " ".join(note.assumption for note in report.notes)
    assert "WK1[6,2] is 0 here and 3 in the exercise" in said
    assert {29, 71, 105} <= {item.line for item in report.unread}
    assert [item.line for item in report.struck] == [27, 27]


def test_without_an_exercise_the_arithmetic_is_checked() -> None:
    report = marked(None, read_file(SAMPLES / "four-tokens.md"))
    assert report.score is None
    assert report.cells == ()
    assert sum(f.verdict == "rounded" for f in report.arithmetic) == 4
    assert any(f.verdict == "right" and f.line == 69 for f in report.arithmetic)


def test_a_number_used_later_as_it_should_be_is_said() -> None:
    report = check(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    assert "you go on with 5" in report.slips[0].why


@pytest.mark.parametrize("text", ["$$Q = 9^{9^{9^9}}$$", r"$$Q = \begin{bmatrix} 1 & 2$$", "$$Q = (((1$$"])
def test_nothing_that_can_be_read_is_an_error_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        check(library.get("four-tokens"), read(text))
    assert "no number in the document can be read (line 1:" in str(caught.value)
    assert "\n" not in str(caught.value)
