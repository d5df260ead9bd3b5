"""Numbers whose place, or whose last digit, is not certain are not called wrong."""

from __future__ import annotations

import math

import pytest

from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve

LABELS = ["the", "cat", "sat", "down"]
WORDS = from_data({
    "labels": LABELS, "scale": "none",
    "Q": [[0, 0], [0, 1], [1, 1], [1, 0]], "K": [[0, 0], [2, 1], [0, 2], [1, 0]], "V": [[0, 0], [2, 2], [0, 2], [1, 0]],
})  # fmt: skip
PERCENT = from_data({
    "scale": "none",
    "Q": [[1, 0], [1, 1], [0, 2], [-1, 1]],
    "K": [[1, 1], [0, 2], [2, 0], [1, 0]],
    "V": [[4, 0], [0, 4], [2, 2], [1, 3]],
})  # fmt: skip
COLUMNS = from_data({
    "layout": "columns", "Q": [[1, 1, 2], [0, 1, 1]], "K": [[1, 0, 1], [1, 1, 2]], "V": [[2, 0, 2], [1, 1, 2]],
})  # fmt: skip


def graded(exercise: Exercise, text: str) -> Grade:
    return grade(exercise, read(f"{text}\n", "a.txt"))


def verdicts(exercise: Exercise, text: str) -> dict[str, str]:
    return {f"{c.symbol}{c.row}{c.column}": c.verdict for c in graded(exercise, text).cells if c.given is not None}


def test_a_number_may_follow_from_any_value_that_rounds_to_a_wrong_one_of_unknown_cause() -> None:
    weights = [0.30049, 0.20049, 0.30049, 0.19853]  # printed to three digits
    A = [[0.25] * 4, weights, [0.0321, 0.6439, 0.2369, 0.0871], [0.0826, 0.6103, 0.0826, 0.2245]]
    shown = "; ".join(" ".join(f"{x:.3f}" for x in row) for row in A)
    value = 2 * weights[1] + 2 * weights[2]  # H[2,2] = 1.00196; the printed weights give 1.000
    text = f"A = [{shown}]\nH = [0.75 1; {2 * weights[1] + weights[3]:.3f} {value:.3f}; 1.375 1.762; 1.445 1.386]"
    found = verdicts(WORDS, text)
    assert found["A21"] == found["A22"] == "wrong"
    assert found["H22"] == "follows"
    assert verdicts(WORDS, text.replace(f"{value:.3f}", "1.052"))["H22"] == "wrong"


def test_single_weights_of_unscaled_scores_indexed_by_query_and_key_in_columns() -> None:
    Q, K, V = ([[1, 0], [1, 1], [2, 1]], [[1, 1], [0, 1], [1, 2]], [[2, 1], [0, 1], [2, 2]])
    rows = [[math.exp(sum(a * b for a, b in zip(q, k, strict=True))) for k in K] for q in Q]
    A = [[x / sum(row) for x in row] for row in rows]
    H = [[sum(a * v[j] for a, v in zip(row, V, strict=True)) for j in range(2)] for row in A]
    lines = [f"a_{i}{j} = {x:.4f}" for i, row in enumerate(A, 1) for j, x in enumerate(row, 1)]
    lines += [f"h{i} = ({x:.4f}, {y:.4f})^T" for i, (x, y) in enumerate(H, 1)]
    made = graded(COLUMNS, "\n".join(lines))
    assert {mistake.name for mistake in made.mistakes} == {"no √d_k"}
    assert {c.verdict for c in made.cells if c.symbol == "H" and c.given is not None} == {"follows"}


def test_vectors_with_a_sign_of_transposition_on_one_line() -> None:
    projected = from_data({
        "layout": "columns", "X": [[1, 2], [0, 1]],
        "heads": [{"WQ": [[1, 0], [0, 1]], "WK": [[1, 0], [1, 1]], "WV": [[2, 0], [1, 1]]}],
    })  # fmt: skip
    found = verdicts(projected, "q1 = (1, 0)^T    k1 = (1, 1)^T    v1 = (2, 1)^T")
    assert found == dict.fromkeys(("Q11", "Q21", "K11", "K21", "V11", "V21"), "right")


@pytest.mark.parametrize(
    "text",
    [
        "Scores\n\n- query 1: with key 1: 1; with key 2: 0; with key 3: 2; with key 4: 1",
        "Scores\n\nFor query 1: key 1 gives 1, key 2 gives 0, key 3 gives 2 and key 4 gives 1.",
    ],
)
def test_scores_of_a_query_with_each_key(text: str) -> None:
    assert verdicts(PERCENT, text) == dict.fromkeys(("S11", "S12", "S13", "S14"), "right")


def test_spanish_weights_for_each_key() -> None:
    weights = "19,7 % a la clave 1, 7,2 % a la clave 2, 53,4 % a la clave 3, 19,7 % a la clave 4"
    found = verdicts(PERCENT, f"Pesos:\nLa consulta 1 presta {weights}.")
    assert found == dict.fromkeys(("A11", "A12", "A13", "A14"), "right")


@pytest.mark.parametrize(
    "text",
    [
        "Weights: \"the\" attends to every word with 0.25.\n"
        "\"cat\" attends to sat with 0.61, to cat with 0.22, to the and down with 0.08 each.",
        "Attention weights\nthe looks equally at all four words (0.25 each).\n"
        "cat: sat 0.61, cat 0.22, the and down 0.08 each",
    ],
)  # fmt: skip
def test_a_number_that_stands_for_several_weights(text: str) -> None:
    assert verdicts(WORDS, text) == {f"A{i}{j}": "right" for i in (1, 2) for j in (1, 2, 3, 4)}


def test_a_matrix_of_another_size_is_no_wrong_answer_to_another_step() -> None:
    found = verdicts(WORDS, "A = [[1, 1, 1], [1, 1, 1], [1, 1, 1]]")
    assert "wrong" not in found.values()


def test_words_between_a_name_and_its_matrix() -> None:
    rows = "[[0.9, 0.1, 0, 0], [0.5, 0.5, 0, 0], [0.3, 0.3, 0.4, 0], [0, 0, 0, 1]]"
    found = verdicts(WORDS, f"A = softmax of each row =\n{rows}")
    assert len(found) == 16
    assert {place[0] for place in found} == {"A"}


def test_a_matrix_that_repeats_its_cells_is_the_same_step() -> None:
    rows = [["0.75", "1"], ["0.9", "1.67"], ["1.37", "1.76"], ["1.45", "1.39"]]
    cells = "\n".join(f"h{i}{j} = {x}" for i, row in enumerate(rows, 1) for j, x in enumerate(row, 1))
    made = graded(WORDS, f"{cells}\n\nH = [{'; '.join(' '.join(row) for row in rows)}]")
    assert {c.symbol for c in made.cells if c.given is not None} == {"H"}
    assert [c.given for c in made.cells if c.verdict == "wrong"] == ["0.9"]


def test_the_value_after_the_key_in_a_sentence() -> None:
    projected = from_data({
        "X": [[2, 0], [1, 1], [2, 1]],
        "heads": [{"WQ": [[1, 0], [0, 1]], "WK": [[1, 0], [0, 1]], "WV": [[1, 0], [0, 1]]}],
    })  # fmt: skip
    text = "The third token has the key (2, 1) and the value (2, 1)."
    assert verdicts(projected, text) == dict.fromkeys(("K31", "K32", "V31", "V32"), "right")


@pytest.mark.parametrize(
    "text",
    [
        "Aufgabe 9.1\n\nA =\n0,459 0,081 0,459\n0,081 0,459 0,459\n",
        "| | 1 | 2 |\n|---|---|---|\n| Token 1 | 3,5 | 4,5 |\n| Token 2 | 4,0 | 3,0 |\n\n0,186 und 0,507\n",
    ],
)
def test_decimal_commas_beside_the_number_of_an_exercise_and_in_a_table(text: str) -> None:
    assert any("decimal commas" in note.assumption for note in read(text, "a.md").notes)


HEADS = from_data({
    "X": [[1, 0, 2, 1], [0, 1, 1, 0], [1, 1, 0, 2]],
    "heads": [
        {"WQ": [[1, 0], [0, 1], [1, 0], [0, 0]], "WK": [[0, 1], [1, 0], [0, 0], [1, 1]],
         "WV": [[1, 0], [0, 1], [0, 1], [1, 0]]},
        {"WQ": [[0, 1], [1, 0], [0, 0], [1, 1]], "WK": [[1, 0], [0, 1], [0, 1], [0, 0]],
         "WV": [[1, 1], [0, 0], [1, 0], [0, 1]]},
    ],
})  # fmt: skip


def test_scores_that_are_wrong_throughout_below_the_title_of_a_step_of_the_next_head() -> None:
    first = "\n".join("| " + " | ".join(str(x.decimal(4)) for x in row) + " |" for row in solve(HEADS)["S1"])
    head = "|  |  |  |\n|---|---|---|\n"
    wrong = "| 1.31 | 0.57 | 0.93 |\n| 1.17 | 0.29 | 0.88 |\n| 3.71 | 0.43 | 2.19 |"
    text = f"Scaled scores S:\n\n{head}{first}\n\nScaled scores S:\n\n{head}{wrong}\n"
    found = {c.symbol: c.verdict for c in grade(HEADS, read(text, "a.md")).cells if c.given is not None}
    assert found == {"S1": "right", "S2": "wrong"}
