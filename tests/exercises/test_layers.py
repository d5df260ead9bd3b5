"""Homework about layers in rows and columns, with heads, masks and blocks: all is found, and no verdict is false."""

from __future__ import annotations

from pathlib import Path

import pytest

from exercises.layers import EXERCISES, FORMS, compare, exercise_of, outcome
from glassformer.exercises.grade import grade
from glassformer.exercises.reader import read

SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.variants(30)
@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_number_is_found_and_right(form: str, name: str) -> None:
    made = outcome(form, name)
    assert made.false == []
    assert made.found == made.cells
    assert made.graded is not None
    assert made.graded.mistakes == ()
    assert made.graded.unread == ()


@pytest.mark.variants(14)
@pytest.mark.parametrize("name", ["columns", "causal heads"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_one_planted_mistake_is_wrong_and_all_that_follows_is_not(form: str, name: str) -> None:
    made = outcome(form, name, mistake=1)
    assert made.false == []
    assert made.found == made.cells
    assert made.graded is not None
    wrong = [cell for cell in made.graded.cells if cell.verdict == "wrong"]
    assert len(wrong) == 1
    assert sum(cell.verdict == "follows" for cell in made.graded.cells) > 0


@pytest.mark.parametrize(
    ("file", "name"),
    [("typst.pdf", "causal heads"), ("chromium.pdf", "block in columns"), ("libreoffice.pdf", "heads in columns")],
)
def test_pdfs_of_other_programs_than_latex(file: str, name: str) -> None:
    """Formulas of Typst 0.13, MathML printed by Chromium, and tables of a Word document exported by LibreOffice 7.4."""
    made = compare(name, (SAMPLES / file).read_bytes(), file)
    assert made.false == []
    assert made.found == made.cells


LINES = {
    "rows": ("Attention weights:\nRow 1: (0.164, 0.284, 0.028)\nRow 2: (0.164, 0.140, 0.014)\n", 6),
    "row of a symbol": ("Row 3 of A: 0.673, 0.576, 0.958\n", 3),
    "columns": ("Attention weights:\nColumn 1: (0.164, 0.164, 0.673)\nColumn 2: (0.284, 0.140, 0.576)\n", 6),
    "queries": ("Attention weights:\nquery 1: (0.164, 0.164, 0.673)\nquery 3: (0.028, 0.014, 0.958)\n", 6),
    "list of vectors": ("The keys of the three tokens are (0, 1), (1, 0) and (1, 2).\n", 6),
    "round brackets": ("Q = (1 0 2 ; 1 1 3)\n", 6),
}


@pytest.mark.parametrize("form", LINES)
def test_lines_of_a_matrix_in_columns(form: str) -> None:
    """A row is a row of the matrix, a query or a token is a column."""
    text, count = LINES[form]
    graded = grade(exercise_of("columns"), read(text, "a.txt"))
    assert [cell.verdict for cell in graded.cells if cell.given is not None] == ["right"] * count
    assert graded.unread == ()


def test_a_numbered_table_has_no_unread_labels() -> None:
    rows = ("$A$ & 1 & 2 & 3", "1 & 0.164 & 0.284 & 0.028", "2 & 0.164 & 0.140 & 0.014", "3 & 0.673 & 0.576 & 0.958")
    text = "\\begin{tabular}{c|ccc}\n" + " \\\\\n".join(rows) + "\n\\end{tabular}\n"
    graded = grade(exercise_of("columns"), read(text, "a.tex"))
    assert [cell.verdict for cell in graded.cells if cell.given is not None] == ["right"] * 9
    assert graded.unread == ()


def test_weights_of_which_some_are_not_written_need_not_sum_to_one() -> None:
    text = "Row 1 of A: 0.164, 0.284, 0.028\nRow 2 of A: 0.164, 0.140, 0.014\n"
    graded = grade(exercise_of("columns"), read(text, "a.txt"))
    assert not any("sum to" in note.assumption for note in graded.notes)
