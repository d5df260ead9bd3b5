"""Names, indices, heads, rows, context and values → cells of the plan."""

from __future__ import annotations

import pytest

from glassformer.exercises import library
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.grade.align import Aligner, Alignment
from glassformer.exercises.grade.cells import values_of
from glassformer.exercises.grade.vocabulary import label_of
from glassformer.exercises.plan import plan
from glassformer.exercises.printers.latex import latex
from glassformer.exercises.reader import read
from glassformer.exercises.steps import name


def placed(exercise: str, text: str, name: str = "a.md") -> Alignment:
    return Aligner(plan(library.get(exercise)), read(text, name)).run()


def cells(alignment: Alignment) -> dict[str, dict[tuple[int, int], str]]:
    found = alignment.entries()
    return {symbol: {(i + 1, j + 1): entry.text for (i, j), entry in found[symbol].items()} for symbol in found}


@pytest.mark.parametrize(
    ("text", "symbol", "found"),
    [
        ("$q_2 = (2, 0)$", "Q", {(2, 1): "2", (2, 2): "0"}),
        (r"$k_4 = \begin{bmatrix} 1 \\ 0 \end{bmatrix}$", "K", {(4, 1): "1", (4, 2): "0"}),
        ("$w_{1,2} = 0.5344$", "A", {(1, 2): "0.5344"}),
        ("$a_{12} = 0.5344$", "A", {(1, 2): "0.5344"}),
        ("$a_{21} = a_{24} = 0.105$", "A", {(2, 1): "0.105", (2, 4): "0.105"}),
        ("$w_{3,j} = 0.25$", "A", {(3, 1): "0.25", (3, 2): "0.25", (3, 3): "0.25", (3, 4): "0.25"}),
        (r"$q_1 \cdot k_2 = 2$", "S", {(1, 2): "2"}),
        ("$z_3 = (0, 1)$", "H", {(3, 1): "0", (3, 2): "1"}),
        ("$z_1 = 13.8256$", "Z", {(1, 1): "13.8256"}),
        ("$out_1 = (0, 0.6622)$", "O", {(1, 1): "0", (1, 2): "0.6622"}),
    ],
)
def test_one_head(text: str, symbol: str, found: dict[tuple[int, int], str]) -> None:
    alignment = placed("four-tokens", text)
    assert cells(alignment) == {symbol: found}
    assert alignment.unread == []


def test_counting_from_0_is_seen_and_said() -> None:
    alignment = placed("four-tokens", "$q_0 = (1, 2)$, $q_1 = (2, 0)$")
    assert cells(alignment)["Q"] == {(1, 1): "1", (1, 2): "2", (2, 1): "2", (2, 2): "0"}
    assert [note.assumption for note in alignment.notes] == ["the indices of q are counted from 0"]


MATRIX = r"\begin{bmatrix} 3 & 6 & 4 \\ 5 & 5 & 7 \end{bmatrix}"


@pytest.mark.parametrize(
    "text",
    [f"$$Q_2 = {MATRIX}$$", f"$$Q^{{(2)}} = {MATRIX}$$", f"Head 2: $$Q = {MATRIX}$$", rf"$$\Omega_2 = {MATRIX}$$"],
)
def test_the_head_is_an_index_or_in_the_words(text: str) -> None:
    alignment = placed("two-heads", text)
    assert list(cells(alignment)) == ["Q2"]


def test_a_head_that_only_its_values_tell_is_noted() -> None:
    alignment = placed("two-heads", f"$$Q = {MATRIX}$$")
    assert list(cells(alignment)) == ["Q2"]
    assert "taken as Q2 by its values" in alignment.notes[0].assumption


def test_a_head_that_nothing_tells_is_not_guessed() -> None:
    alignment = placed("two-heads", r"$$Q = \begin{bmatrix} 9 & 9 & 9 \\ 9 & 9 & 8 \end{bmatrix}$$")
    assert alignment.placed == []
    assert "it may be Q1 or Q2" in alignment.unread[0].reason


def test_a_wrong_value_is_placed_by_its_name() -> None:
    alignment = placed("two-heads", r"$$Q_1 = \begin{bmatrix} 9 & 9 & 9 \\ 9 & 9 & 8 \end{bmatrix}$$")
    assert list(cells(alignment)) == ["Q1"]


def test_scores_before_they_are_scaled() -> None:
    raw = r"\begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}"
    assert list(cells(placed("root-three", f"$$S = QK^T = {raw}$$"))) == ["QKt"]
    assert list(cells(placed("root-three", rf"$$S = \frac{{QK^T}}{{\sqrt{{d_k}}}} = {raw}$$"))) == ["S"]


def test_rows_that_the_words_call_the_same() -> None:
    alignment = placed("four-tokens", "For row 1 and 4:\n\n$$w_{1,1} = 0.1966$$")
    assert cells(alignment)["A"] == {(1, 1): "0.1966", (4, 1): "0.1966"}
    assert "row 4 is taken to be the same" in alignment.notes[0].assumption


def test_what_does_not_fit_is_listed_with_its_size() -> None:
    alignment = placed("two-heads", r"$$Q_1 = \begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}$$")
    assert alignment.unread[0].reason == "Q1 is 2×3 in this exercise, but 2×2 is written"
    assert list(alignment.misshaped) == ["Q1"]


def test_answers_by_symbol_and_partly_by_cell() -> None:
    assert list(cells(placed("two-heads", "QKt2: [[36, 32], [46, 39]]", "a.yaml"))) == ["QKt2"]
    alignment = placed("four-tokens", "symbol,row,column,value\nH,1,2,0.6622\n", "a.csv")
    assert cells(alignment) == {"H": {(1, 2): "0.6622"}}


def test_crossed_out_work_is_kept_apart() -> None:
    alignment = placed("four-tokens", r"$$\cancel{q_1 = (9, 9)}$$ $$q_1 = (1, 2)$$")
    assert cells(alignment)["Q"] == {(1, 1): "1", (1, 2): "2"}
    assert len(alignment.struck) == 1


def test_parameters_are_left_alone() -> None:
    alignment = placed("root-three", "$d_k = 3$ and $foo = 4$")
    assert [item.reason for item in alignment.unread] == ["no step of this exercise is called foo"]


def test_a_name_that_equals_a_name_has_its_numbers() -> None:
    alignment = placed("four-tokens", r"$\alpha_1 = (0.2, 0.53, 0.07, 0.2)$ and $\alpha_4 = \alpha_1$")
    written = ("0.2", "0.53", "0.07", "0.2")
    assert cells(alignment)["A"] == {(i, j + 1): text for i in (1, 4) for j, text in enumerate(written)}
    assert "A" not in cells(placed("four-tokens", r"$\alpha_4 = \alpha_1$"))


def test_a_numbered_word_is_a_name() -> None:
    alignment = placed("two-heads", "Head1 = A1 V1 = [[1, 2, 3], [4, 5, 6]]")
    assert list(cells(alignment)) == ["H1"]
    assert not alignment.unread


def test_exponentials_listed_without_brackets() -> None:
    alignment = placed("four-tokens", "The exponentials are $e^2, e^4, 1, e^2$.")
    assert list(cells(alignment)["E"]) == [(2, 1), (2, 2), (2, 3), (2, 4)]
    assert "E" not in cells(placed("four-tokens", "The exponentials are $e, e^2, 1, e$."))  # row 1 or row 4


LINES = "$$Q = \\begin{{bmatrix}} 1 & 2 \\\\ 2 & {} \\\\ 0 & 1 \\\\ 1 & 1 \\end{{bmatrix}}$$\n\n"


def test_the_last_one_counts_and_it_is_said() -> None:
    alignment = Aligner(plan(library.get("four-tokens")), read((LINES + "again" + LINES).format(5, 0))).run()
    assert alignment.entries()["Q"][1, 1].text == "0"
    assert any("Q is written again" in note.assumption and "[2,2] 5" in note.assumption for note in alignment.notes)


def test_the_same_to_fewer_digits_is_no_contradiction() -> None:
    alignment = Aligner(plan(library.get("four-tokens")), read("$w_{1,1} = 0.1966$ so $w_{1,1} = 0.20$")).run()
    assert not [note for note in alignment.notes if "again" in note.assumption]
    assert alignment.entries()["A"][0, 0].text == "0.1966"
    alignment = Aligner(plan(library.get("four-tokens")), read("$w_{1,1} = 0.20$ so $w_{1,1} = 0.1966$")).run()
    assert alignment.entries()["A"][0, 0].text == "0.1966"


def test_open_cells_stay_open() -> None:
    alignment = Aligner(plan(library.get("four-tokens")), read("$w_{1,1} = 0.1966$")).run()
    values = values_of(alignment.entries()["A"], (4, 4))
    assert values[0, 0] is not None
    assert values[3, 3] is None


SCORES = r"$$\begin{bmatrix} 1 & 2 & 0 & 1 \\ 2 & 4 & 0 & 2 \\ 0 & 0 & 0 & 0 \\ 1 & 2 & 0 & 1 \end{bmatrix}$$"


def test_a_matrix_by_its_values() -> None:
    alignment = placed("four-tokens", f"We find\n\n{SCORES}")
    assert [p.symbol for p in alignment.placed] == ["S"]
    assert "unnamed, taken as S by its size and values" in alignment.notes[0].assumption


def test_a_wrong_matrix_by_the_words_before_it() -> None:
    wrong = SCORES.replace("4", "7").replace("1", "8").replace("2", "9").replace("0", "5")
    assert [p.symbol for p in placed("four-tokens", f"So the scores are:\n\n{wrong}").placed] == ["S"]
    alignment = placed("four-tokens", f"This is it:\n\n{wrong}")
    assert alignment.placed == []
    assert "it has no name, and no step of its size has half of its numbers" in alignment.unread[0].reason


def test_a_size_that_no_step_has() -> None:
    alignment = placed("four-tokens", r"$$\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{bmatrix}$$")
    assert alignment.unread[0].reason == "it has no name, and no step of this exercise is 2×3"


PRODUCT = (
    r"$$\begin{bmatrix} 0.983 & 0.017 \\ 0.947 & 0.053 \end{bmatrix} OTHER"
    r"\begin{bmatrix} 12 & 8 & 10 \\ 11 & 9 & 13 \end{bmatrix} = "
    r"\begin{bmatrix} 11.983 & 8.017 & 10.051 \\ 11.947 & 8.053 & 10.159 \end{bmatrix}$$"
)


def test_a_product_by_its_factors() -> None:
    alignment = placed("two-heads", PRODUCT.replace("OTHER", ""))
    assert {(p.symbol, p.role) for p in alignment.placed} == {("H1", "answer"), ("A1", "factor"), ("V1", "factor")}
    assert "taken as H1 = A1·V1" in alignment.notes[0].assumption


def test_a_product_with_a_lost_strike() -> None:
    other = r"\begin{bmatrix} 0.359 & 0.987 \\ 0.640 & 0.017 \end{bmatrix}"
    alignment = placed("two-heads", PRODUCT.replace("OTHER", other))
    assert alignment.entries()["A1"][0, 0].text == "0.983"
    assert "of 3 matrices the first and third belong to it" in alignment.notes[0].assumption


def test_operands_set_out_are_kept_unless_they_are_another_matrix() -> None:
    text = r"$$Q_1K_1^T = \begin{bmatrix} 4 & 4 & 3 \\ 3 & 5 & 2 \end{bmatrix} \begin{bmatrix} 7 & 6 \\ 8 & 8 \\ 6 & 5"
    text += r" \end{bmatrix} = \begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}$$"
    assert set(placed("two-heads", text).used["QKt1"]) == {"Q1", "K1"}
    assert set(placed("two-heads", text.replace("4 & 4 & 3", "9 & 9 & 9")).used["QKt1"]) == {"K1"}


def test_a_sum_in_prose_belongs_to_the_row_at_hand() -> None:
    text = "For row 2: Exponential: $[e^2, e^4, 1, e^2]$. If we sum them we get circa 70.3763."
    alignment = placed("four-tokens", text)
    assert alignment.entries()["Z"][1, 0].text == "70.3763"
    assert alignment.entries()["E"][1, 1].text == "e^2" or len(alignment.entries()["E"]) == 4


def test_numbers_in_prose_that_belong_nowhere_are_no_complaint() -> None:
    alignment = placed("four-tokens", "The entropy is 1.58 of at most 2.00 bits, and $q_1 = (1, 2)$.")
    assert alignment.unread == []


def test_a_matrix_in_a_formula_that_cannot_be_read() -> None:
    alignment = placed("four-tokens", rf"$$ \foo {SCORES.replace('$$', '')} .1 $$")
    assert all(p.symbol == "S" for p in alignment.placed)


COLUMNS_Q = r"$$Q = \begin{bmatrix} 1 & 1 \\ 0 & 1 \\ 2 & 3 \end{bmatrix}$$"
COLUMNS_V = r"$$V = \begin{bmatrix} 1 & 1 \\ 1 & -1 \\ 3 & 1 \end{bmatrix}$$"
COLUMNS_A = (
    r"$$A = \begin{bmatrix} 0.164 & 0.164 & 0.673 \\ 0.284 & 0.140 & 0.576 \\ 0.028 & 0.014 & 0.958 \end{bmatrix}$$"
)


def test_rows_for_columns_are_accepted_and_it_is_said() -> None:
    graded = grade(library.get("columns"), read(f"{COLUMNS_Q}\n\n{COLUMNS_V}\n\n{COLUMNS_A}\n"))
    assert {cell.verdict for cell in graded.cells if cell.given is not None} == {"right"}
    assert sum(cell.given is not None for cell in graded.cells) == 21
    assert any("transposed" in note.assumption for note in graded.notes)


def test_one_matrix_alone_is_not_enough() -> None:
    graded = grade(library.get("columns"), read(f"{COLUMNS_A}\n"))
    assert any(cell.verdict == "wrong" for cell in graded.cells)
    assert not any("transposed" in note.assumption for note in graded.notes)


UNSCALED = r"$$S = \begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}$$"
RIGHT_WEIGHTS = r"$$A = \begin{bmatrix} 0.983 & 0.017 \\ 0.947 & 0.053 \end{bmatrix}$$"
WRONG_WEIGHTS = r"$$A = \begin{bmatrix} 0.9991 & 0.0009 \\ 0.9933 & 0.0067 \end{bmatrix}$$"


def root_three(*parts: str) -> Grade:
    return grade(library.get("root-three"), read("\n\n".join(parts)))


def test_the_weights_show_that_it_was_scaled() -> None:
    graded = root_three(UNSCALED, RIGHT_WEIGHTS)
    assert {c.symbol: c.verdict for c in graded.cells if c.given} == {"QKt": "right", "A": "right"}
    assert any("was scaled or masked later" in note.assumption for note in graded.notes)
    assert graded.mistakes == ()


def test_the_weights_show_that_it_was_not() -> None:
    graded = root_three(UNSCALED, WRONG_WEIGHTS)
    assert {c.symbol: c.verdict for c in graded.cells if c.given} == {"S": "wrong", "A": "follows"}
    assert [mistake.name for mistake in graded.mistakes] == ["no √d_k"]


def test_the_formula_says_which_it_is() -> None:
    graded = root_three(UNSCALED.replace("S =", "S = QK^T ="), WRONG_WEIGHTS)
    assert {c.symbol: c.verdict for c in graded.cells if c.given} == {"QKt": "right", "A": "wrong"}
    assert [(mistake.name, mistake.where) for mistake in graded.mistakes] == [("no √d_k", "A")]


@pytest.mark.parametrize("exercise", library.names())
def test_labels_are_those_that_the_reader_gives_to_what_solve_displays(exercise: str) -> None:
    made = plan(library.get(exercise))
    for symbol in (*made.given, *made.symbols):
        target = read(f"$${latex(name(symbol))} = 1$$").statements[0].target
        assert target is not None
        assert label_of(symbol) == target.label


def test_a_program_with_its_output_as_comments() -> None:
    program = """import numpy as np
Q = np.array([[1, 2], [2, 0], [0, 1], [1, 1]])
print(A.round(4))
# [[0.1966 0.5344 0.0723 0.1966]
#  [0.1050 0.7758 0.0142 0.1050]
#  [0.2500 0.2500 0.2500 0.2500]
#  [0.1966 0.5344 0.0723 0.1966]]
# that is all
"""
    found = grade(library.get("four-tokens"), read(program, "a.py"))
    right = {cell.symbol for cell in found.cells if cell.verdict == "right"}
    assert right == {"Q", "A"}
    assert not found.notes


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("q(2) = (2, 0)   k(2) = (2, 0)", {("Q", 2): 2, ("K", 2): 2}),
        ("<q1,k2> = 2 and ⟨q2, k2⟩ = 4", {("S", 1): 1, ("S", 2): 1}),
        ("q1·k2 = 2 -> 2/1 = 2", {("S", 1): 1}),
        ("Final result:\ntoken 1 = [0, 0.6622]\ntoken 2 = [0, 0.3292]", {("O", 1): 2, ("O", 2): 2}),
    ],
)
def test_less_usual_notations(text: str, cells: dict[tuple[str, int], int]) -> None:
    found = grade(library.get("four-tokens"), read(text, "a.txt"))
    written = [cell for cell in found.cells if cell.verdict != "missing"]
    assert {cell.verdict for cell in written} == {"right"}
    named = [({"H": "O", "QKt": "S"}.get(cell.symbol, cell.symbol), cell.row) for cell in written]
    assert {place: named.count(place) for place in named} == cells
    assert all(one.verdict == "right" for one in found.arithmetic)


def test_a_row_like_another_one() -> None:
    text = "For row 1 the weights are $0.2119, 0.5761, 0, 0.2119$. Row 4 is like row 1: $0.2119, 0.5761, 0, 0.2119$."
    found = cells(placed("four-tokens", text))["A"]
    assert {(i, j): found[i, j] for i, j in found if i == 4} == {
        (4, 1): "0.2119", (4, 2): "0.5761", (4, 3): "0", (4, 4): "0.2119",
    }  # fmt: skip


def test_the_second_mean_and_variance_are_those_of_the_second_normalisation() -> None:
    first = "mean_1 = 2.3\nvariance_1 = 3\nRF = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]\n\n"
    table = "| | mean | variance |\n|---|---|---|\n| token 1 | 0.7676 | 1.1564 |\n"
    found = cells(placed("block", first + table))
    assert (found["mu"], found["var"]) == ({(1, 1): "2.3"}, {(1, 1): "3"})
    assert (found["muF"], found["varF"]) == ({(1, 1): "0.7676"}, {(1, 1): "1.1564"})


def test_a_label_before_a_list_names_its_row() -> None:
    alignment = placed(
        "four-tokens", "softmax\n- q2: (1, 2, 0, 1) → (0.5, 0.3, 0.1, 0.1)\n- q3: (1, 2, 0, 1) → (0.4, 0.3, 0.2, 0.1)\n"
    )
    assert cells(alignment)["A"] == {
        (2, 1): "0.5", (2, 2): "0.3", (2, 3): "0.1", (2, 4): "0.1",
        (3, 1): "0.4", (3, 2): "0.3", (3, 3): "0.2", (3, 4): "0.1",
    }  # fmt: skip


def test_the_distance_of_two_cumulative_sums() -> None:
    assert cells(placed("transport", "$|F - G| = (0.3, 0.4, 0.3, 0)$"))["D"][1, 2] == "0.4"


def test_a_title_that_ends_with_a_symbol_names_the_table_below() -> None:
    table = "| | a | b |\n|---|---|---|\n| row 1 | 9 | 8 |\n| row 2 | 7 | 6 |\n| row 3 | 5 | 4 |\n| row 4 | 3 | 2 |\n"
    found = placed("four-tokens", f"My numbers, V:\n\n{table}")
    assert cells(found) == {"V": {(i + 1, j + 1): str(9 - 2 * i - j) for i in range(4) for j in range(2)}}
    assert [each.certain for each in found.placed] == [True]
    for words in ("My numbers, Vivian:", "My numbers, part V:"):
        assert cells(placed("four-tokens", f"{words}\n\n{table}")) == {}


def test_scores_that_are_written_again_were_those_before_scaling() -> None:
    raw, scaled = "score(q1, k1) = 78, score(q1, k2) = 71", "e_11 = 45.0333, e_12 = 40.9919"
    weights = "a_11 = 0.9827"
    found = cells(placed("root-three", f"{raw}\n\nDivide by √3\n\n{scaled}\n\n{weights}\n"))
    assert (found["QKt"], found["S"]) == ({(1, 1): "78", (1, 2): "71"}, {(1, 1): "45.0333", (1, 2): "40.9919"})
    corrected = cells(placed("root-three", "score(q1, k1) = 45\n\nscore(q1, k1) = 45.0333\n"))
    assert corrected == {"S": {(1, 1): "45.0333"}}


def test_exponentials_under_the_heading_of_weights_are_weights() -> None:
    rows = "token 2: 7.3891 | 54.5982 | 1 | 7.3891\ntoken 4: 2.7183 | 7.3891 | 1 | 2.7183\n"
    assert cells(placed("four-tokens", f"Attention weights:\n{rows}", "a.txt"))["A"][2, 2] == "54.5982"
