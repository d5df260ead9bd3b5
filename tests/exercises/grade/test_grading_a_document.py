"""The whole way: exercises made, solved, rendered and read back; spoilt in one cell; real homework; JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade import grade
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import read, read_file
from glassformer.exercises.solution import render, solve

SAMPLES = Path(__file__).parent.parent / "samples"


def assert_all_right(exercise: Exercise, text: str, name: str) -> None:
    graded = grade(exercise, read(text, name))
    steps = solve(exercise).steps
    assert len(graded.cells) == sum(step.value.shape[0] * step.value.shape[1] for step in steps)
    assert {cell.verdict for cell in graded.cells} == {"right"}
    assert graded.score == 1
    assert graded.unread == ()
    assert graded.mistakes == ()
    assert all(finding.verdict == "right" for finding in graded.arithmetic)


@given(st.integers(0, 10**6), st.sampled_from(("markdown", "latex")), st.integers(3, 6))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_rendered_solution_is_right(maker, seed: int, form: str, digits: int) -> None:  # type: ignore[no-untyped-def]
    exercise = maker.exercise(random.Random(seed))
    text = maker.document(maker.solution(exercise, plan(exercise)), form, digits)
    assert_all_right(exercise, text, "a.md" if form == "markdown" else "a.tex")


@pytest.mark.variants(12)
@pytest.mark.parametrize("form", ["markdown", "latex"])
@pytest.mark.parametrize("name", library.names())
def test_embedded_exercises_are_right(name: str, form: str) -> None:
    exercise = library.get(name)
    assert_all_right(exercise, render(solve(exercise), form), "a.md" if form == "markdown" else "a.tex")


@given(st.integers(0, 10**6), st.integers(3, 6))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_wrong_cell_leaves_the_rest(maker, seed: int, digits: int) -> None:  # type: ignore[no-untyped-def]
    """The cell is wrong, everything after it follows, everything else is right."""
    spoilt = maker.spoil("one wrong number", random.Random(seed), "markdown", digits)
    if spoilt is None:
        return
    ((symbol, _),) = spoilt.given.items()
    graded = maker.grade(spoilt.exercise, spoilt.text)
    wrong = [cell for cell in graded.cells if cell.verdict not in ("right", "follows")]
    assert [(cell.symbol, cell.verdict) for cell in wrong] == [(symbol, "wrong")]
    after = set(plan(spoilt.exercise).after(symbol))
    assert {cell.symbol for cell in graded.cells if cell.verdict == "follows"} <= after


def test_four_tokens_as_it_was_handed_in() -> None:
    graded = grade(library.get("four-tokens"), read_file(SAMPLES / "four-tokens.md"))
    verdict = {(c.symbol, c.row, c.column): (c.given, c.verdict) for c in graded.cells}
    assert all(v == "right" for (s, _, _), (_, v) in verdict.items() if s in ("Q", "K", "V", "S", "E", "Z"))
    assert verdict["A", 1, 1] == ("0.1967", "rounded")
    assert verdict["A", 1, 2] == ("0.5343", "rounded")
    assert verdict["A", 2, 2] == ("0.7757", "rounded")
    assert verdict["A", 1, 3] == ("0.0723", "right")
    assert verdict["O", 1, 2] == ("0.6624", "follows")
    assert verdict["O", 4, 2] == ("0.6624", "follows")
    assert verdict["O", 2, 2] == ("0.3292", "right")
    assert graded.mistakes == ()
    assert graded.unread == ()
    assert "missing" not in graded.count()


def test_two_heads_as_they_were_scanned() -> None:
    graded = grade(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    wrong = {(c.symbol, c.row, c.column): (c.given, c.expected) for c in graded.cells if c.verdict == "wrong"}
    assert wrong == {("Q1", 2, 2): ("0", "5"), ("H2", 2, 3): ("9.095", "9.086"), ("C", 1, 2): ("9.017", "8.017")}
    verdicts = {s: {c.verdict for c in graded.cells if c.symbol == s} for s in graded.symbols()}
    assert all(verdicts[s] == {"right"} for s in ("K1", "V1", "A1", "Q2", "K2", "V2", "QKt2"))
    assert verdicts["A2"] == {"right", "rounded"}
    assert verdicts["O"] == {"follows"}
    said = " ".join(note.assumption for note in graded.notes)
    assert "WK1[6,2] is 0 here and 3 in the exercise" in said
    assert {29, 105} <= {item.line for item in graded.unread}
    assert [item.line for item in graded.struck] == [27, 27]


def test_without_an_exercise_the_arithmetic_is_checked() -> None:
    graded = grade(None, read_file(SAMPLES / "four-tokens.md"))
    assert graded.score is None
    assert graded.cells == ()
    assert sum(f.verdict == "rounded" for f in graded.arithmetic) == 4
    assert any(f.verdict == "right" and f.line == 69 for f in graded.arithmetic)


def test_a_number_used_later_as_it_should_be_is_said() -> None:
    graded = grade(library.get("two-heads"), read_file(SAMPLES / "two-heads.md"))
    assert "you continue with 5" in graded.mistakes[0].why


@pytest.mark.parametrize("text", ["$$Q = 9^{9^{9^9}}$$", "$$Q = (((1$$"])
def test_nothing_that_can_be_read_is_an_error_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        grade(library.get("four-tokens"), read(text))
    assert "no number in the document can be read (line 1:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_keys_and_verdicts() -> None:
    text = "$$q_1 = (1, 3)$$ $$w_{1,1} = 0.1967$$ $$out_1 = (0, 0.6624)$$ $$foo = 3$$"
    data = json.loads(json.dumps(grade(library.get("four-tokens"), read(text)).to_json()))
    assert {"score", "cells", "mistakes", "unread"} <= set(data)
    first = data["cells"][0]
    assert {"symbol", "row", "column", "given", "expected", "verdict"} <= set(first)
    assert (first["symbol"], first["row"], first["column"], first["given"]) == ("Q", 1, 1, "1")
    by_place = {(c["symbol"], c["row"], c["column"]): c for c in data["cells"]}
    assert by_place["Q", 1, 2] == {
        "symbol": "Q", "row": 1, "column": 2, "given": "3", "expected": "2", "verdict": "wrong", "line": 1,
    }  # fmt: skip
    assert by_place["A", 1, 1]["verdict"] == "rounded"
    assert by_place["A", 1, 1]["expected"] == "0.1966"
    assert by_place["O", 4, 1] | {"line": None} == {
        "symbol": "O", "row": 4, "column": 1, "given": None, "expected": "0", "verdict": "missing", "line": None,
    }  # fmt: skip
    assert {"name", "where", "why"} <= set(data["mistakes"][0])
    assert data["unread"][0] == {"line": 1, "source": "foo = 3", "reason": "no step of this exercise is called foo"}
    assert 0 < data["score"] < 1


def test_counts() -> None:
    graded = grade(library.get("four-tokens"), read("$$out_3 = (0, 1)$$"))
    assert graded.count()["right"] == 2
    assert graded.symbols()[-1] == "O"


def test_numbers_out_of_range_and_minus_infinity_outside_scores() -> None:
    """A number with an exponent of 320, and −∞ where LayerNorm takes a root."""
    grade(library.get("layernorm"), read("softmax ->\n\n$$Q = 0.25e320$$"))
    block = library.get("block")
    for symbol in ("X", "R", "mean", "var", "O"):
        grade(block, read(f"{symbol} = [[1, -inf], [2, -inf], [-inf, 3]]\nvar = [[1], [-inf], [2]]"))
