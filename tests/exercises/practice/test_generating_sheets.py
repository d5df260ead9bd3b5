"""Practice exercises from a seed, and their sheets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.numbers import Masked
from glassformer.exercises.practice import LEVELS, TOPICS, ExerciseSpec, answer_key, exercise_yaml, make, sheet, sheets
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.printers import latex
from glassformer.exercises.solution import solve


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_at_every_level_solves(topic: str, level: str) -> None:
    exercise = make(ExerciseSpec(topic=topic, level=level), seed=3)  # type: ignore[arg-type]
    assert solve(exercise).steps


def test_same_seed_same_sheets_and_every_sheet_different() -> None:
    wanted = ExerciseSpec(heads=2)
    first = sheets(wanted, 7, 12)
    assert sheets(wanted, 7, 12) == first
    assert sheets(wanted, 8, 12) != first
    bare = [exercise.model_copy(update={"title": ""}) for exercise in first]
    assert all(a != b for i, a in enumerate(bare) for b in bare[:i])


def test_scores_stay_readable() -> None:
    for seed in range(20):
        solution = solve(make(ExerciseSpec(level="medium"), seed))
        cells = [x for _, _, x in solution["S"].cells() if not isinstance(x, Masked)]
        assert max(abs(float(x)) for x in cells) <= 5
        assert len(set(cells)) > 1


def test_what_was_asked_for_is_made() -> None:
    exercise = make(ExerciseSpec(tokens=4, width=3, heads=2), 1)
    assert exercise.X is not None
    assert exercise.X.shape == (4, 3)
    assert len(exercise.all_heads) == 2
    assert make(ExerciseSpec(topic="mask"), 1).mask == "causal"
    assert make(ExerciseSpec(topic="cross"), 1).memory is not None
    assert make(ExerciseSpec(topic="transport"), 1).transport is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "poetry"}, "there is no topic 'poetry': choose one of attention, beta"),
        ({"level": "cruel"}, "there is no level 'cruel': choose one of easy, medium, hard"),
        ({"tokens": 0}, "tokens is 0: choose 1 to 8"),
        ({"heads": 9}, "heads is 9: choose 1 to 4"),
    ],
)
def test_mistakes(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        ExerciseSpec(**options)  # type: ignore[arg-type]
    assert str(error.value).startswith(says)


def test_more_sheets_than_there_are() -> None:
    with pytest.raises(InputError, match="there are only 10 different sheets"):
        sheets(ExerciseSpec(tokens=1, width=1, level="easy"), 1, 40)


@pytest.mark.variants(8)
@pytest.mark.parametrize("topic", ["attention", "beta", "cross"])
@pytest.mark.parametrize("seed", range(8))
def test_no_token_is_repeated(topic: str, seed: int) -> None:
    exercise = make(ExerciseSpec(topic=topic, level="easy"), seed)  # type: ignore[arg-type]
    for tokens in filter(None, (exercise.X, exercise.memory)):
        assert len(set(tokens.rows)) == len(tokens.rows)


@pytest.mark.parametrize("name", library.names())
def test_a_dumped_exercise_is_the_same_exercise(name: str) -> None:
    exercise = library.get(name)
    assert solve(load_exercise(exercise_yaml(exercise) + "\n")).values == solve(exercise).values


@pytest.mark.variants(10)
@pytest.mark.parametrize("form", ["markdown", "latex", "html", "text"])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_sheet_asks_and_does_not_tell(topic: str, form: str) -> None:
    exercise = make(ExerciseSpec(topic=topic), 5)  # type: ignore[arg-type]
    question, answer = sheet(exercise, form), answer_key(exercise, form)
    assert (latex.escape(exercise.title) if form == "latex" else exercise.title) in question
    assert len(answer) > len(question)
    assert "\\approx" not in question
    assert "≈" not in question


def test_what_is_asked_for() -> None:
    symbols = [symbol for symbol, _ in asked(solve(library.get("four-tokens")))]
    assert symbols == ["Q", "K", "V", "S", "A", "H"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_a_sheet_compiles(tmp_path: Path) -> None:
    source = tmp_path / "sheet.tex"
    source.write_text(sheet(make(ExerciseSpec(topic="mask"), 5), "latex"), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


def test_unknown_formats() -> None:
    with pytest.raises(InputError, match="there is no sheet format 'pdf'"):
        sheet(library.get("four-tokens"), "pdf")
