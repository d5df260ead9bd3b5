"""Every number of a document is graded, checked, recognised or unread, and prose is not graded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import from_data
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import render, solve

EXERCISE = from_data(
    {
        "X": [[1, 0, 2], [0, 1, 1], [2, 1, 0]],
        "heads": [{"WQ": [[1, 0], [0, 1], [1, 0]], "WK": [[0, 1], [1, 0], [1, 1]], "WV": [[1, 2], [0, 1], [1, 0]]}],
    }
)


def graded(text: str) -> Grade:
    return grade(EXERCISE, read(text, "a.md"))


PIECES = (
    "$$Q = [[3, 0], [1, 1], [2, 1]]$$", "$$a_{21} = 0.6728$$", "q1 = [3, 0]  q2 = [1, 1]", "Head 2, token 3.",
    "We met on 2024-05-01 at 10:30.", "softmax: token 1: (0.9, 0.9, 0.9)", "$$2 \\cdot 3 + 4 = 11$$", "1. First",
    "If $a_{21} = 1$ then", "for example 0.25, 0.5, 0.25", "$$S = \\frac{QK^T}{\\sqrt{2}}$$", "$d_k = 2$",
    "0,47 and 3.5", "12 % of 3",
    "$$\\begin{bmatrix} 1 & 2 \\\\ 3 \\end{bmatrix}$$", "The result 17.25 is nice.",
    "| a | 1 |\n|---|---|\n| b | 2.5 |",
    "$$z_2 = 0.67 v_1 + 0.16 v_2 + 0.16 v_3 = (2.49, 2.30)$$", "$e^{2} = 7.389$",
    "$x_{12}^{(3)}$",
)  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text("0123456789.,=[]() qkva_{}$\n", max_size=30)), max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_four_classes_add_up(pieces: list[str]) -> None:
    text = "\n\n".join(pieces)
    try:
        found = graded(text)
    except InputError:
        return
    assert found.accounting.total == len(re.findall(r"\d+(?:\.\d+)?|\.\d+", text))
    if found.accounting.unread:
        assert found.unread
        assert "every number is right" not in str(found)


def test_a_row_of_weights_in_words_is_graded() -> None:
    O = "$$O = [[2.0000, 1.6979], [2.5093, 2.3272], [2.5553, 2.0855]]$$"
    found = graded(f"{O}\n\nSoftmax: token 1: (0.9, 0.9, 0.9)\n")
    assert {c.verdict for c in found.cells if c.symbol == "A"} == {"wrong"}
    assert "Well done" not in str(found)


def test_numbers_in_words_are_listed() -> None:
    found = graded("$q_1 = (3, 0)$ and then\n\nthe first component came out as 4.77 and the other as 8.31.\n")
    assert found.accounting.unread == 2
    assert [(item.line, "4.77, 8.31" in item.reason) for item in found.unread] == [(3, True)]


@pytest.mark.parametrize(
    "text",
    [
        "If $a_{21} = 1$ then token 2 ignores the others.",
        "The indices are $j = 1, 2, 3$.",
        "Weights are positive and sum to one, for example 0.25, 0.5, 0.25. We define $A = softmax(S)$.",
        "Suppose that $q_1 = (9, 9)$.",
    ],
)
def test_prose_is_not_an_answer(text: str) -> None:
    found = graded(text)
    assert found.score is None
    assert all(cell.given is None for cell in found.cells)
    assert "Nothing to grade" in str(found)
    assert found.accounting.unread == 0


@pytest.mark.variants(4)
@pytest.mark.parametrize("form", ["markdown", "latex"])
@pytest.mark.parametrize("name", ["four-tokens", "two-heads", "layernorm", "patches", "transport"])
def test_a_rendered_solution_leaves_nothing_unread(name: str, form: str) -> None:
    exercise = library.get(name)
    found = grade(exercise, read(render(solve(exercise), form), "a.md" if form == "markdown" else "a.tex"))
    assert found.score == 1
    assert found.accounting.unread == 0


def test_rows_and_columns_of_a_table_of_cells_are_indices() -> None:
    text = "symbol,row,column,value\nS,1,1,1\nS,1,2,2\nA,1,2,0.5344\n"
    counts = grade(library.get("four-tokens"), read(text, "a.csv")).accounting
    assert (counts.graded, counts.recognised, counts.unread) == (3, 6, 0)


@pytest.mark.parametrize(
    "line",
    [
        "## 7.3 LayerNorm", "\\subsection*{3.1 Scores}", "2 Scaled scores (divided by √2)", "Petr, 11. 3. 2026",
        "Abgabe: 15.\\,12.\\,2025", "Fecha: 3 de marzo de 2026", "Matrikelnummer 3 471 902", "In Zeile 1 und 3",
        "Die Zeilensummen von $A$ sind $1$.", "masked entries give 0", "The rows sum to 1 (up to 0.001).",
        "dk = size(K,2);", "Compito di Deep Learning - esercizio 2", "% devoir 2, exercice 1",
        "| Q | 1 | 2 |\n|---|---|---|\n| a | 3 | 0 |\n| b | 1 | 1 |\n| c | 2 | 1 |",
    ],
)  # fmt: skip
def test_numbers_that_are_no_answers(line: str) -> None:
    assert graded(f"{line}\n\n$$V = [[3, 2], [1, 1], [2, 5]]$$\n").accounting.unread == 0


def test_a_number_before_a_small_word_is_no_heading() -> None:
    assert graded("2 is what I got\n\n$$V = [[3, 2], [1, 1], [2, 5]]$$\n").accounting.unread == 1


def test_queries_and_keys_of_a_table_are_indices() -> None:
    rows = "\n".join(
        f"| {i} | {j} | {a} |" for i, j, a in ((1, 1, 0.1192), (1, 2, 0.8808), (2, 1, 0.8808), (2, 2, 0.1192))
    )
    found = grade(library.get("residual"), read(f"| query | key | weight |\n|---|---|---|\n{rows}\n", "a.md"))
    assert (found.accounting.graded, found.accounting.recognised, found.accounting.unread) == (4, 8, 0)


@pytest.mark.parametrize("name", ["four-tokens", "root-three", "causal", "residual", "transport"])
def test_the_json_of_a_solution_is_read_as_a_whole(name: str) -> None:
    exercise = library.get(name)
    found = grade(exercise, read(render(solve(exercise), "json"), "a.json"))
    assert (found.score, found.accounting.unread, found.unread) == (1, 0, ())


def test_a_wrong_number_in_the_steps_of_a_solution() -> None:
    text = render(solve(EXERCISE), "json", only="A").replace("0.05654736673425855", "0.9")
    assert "0.9" in text
    found = grade(EXERCISE, read(text, "a.json"))
    assert found.count()["wrong"] == 1


def test_the_reason_why_a_row_without_a_name_is_not_graded() -> None:
    found = graded("The first output:\n\n0.67·(3,2) + 0.16·(1,1) + 0.16·(2,4) = (2.49, 2.14)\n\nEnd, $d_k = 2$.")
    (item,) = (each for each in found.unread if "0.67" in each.source)
    assert item.reason.endswith("neither the words before it nor half of its numbers tell which row of a step it is")
