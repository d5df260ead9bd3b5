from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import load
from glassformer.exercises.practice import TOPICS, ExerciseSpec, dump, key, make, sheet
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.printers import latex
from glassformer.exercises.solution import solve


@pytest.mark.parametrize("name", library.names())
def test_a_dumped_exercise_is_the_same_exercise(name: str) -> None:
    exercise = library.get(name)
    assert solve(load(dump(exercise) + "\n")).values == solve(exercise).values


@pytest.mark.variants(10)
@pytest.mark.parametrize("form", ["markdown", "latex", "html", "text"])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_sheet_asks_and_does_not_tell(topic: str, form: str) -> None:
    exercise = make(ExerciseSpec(topic=topic), 5)  # type: ignore[arg-type]
    question, answer = sheet(exercise, form), key(exercise, form)
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
