"""What has no name: placed where exactly one step fits, and listed otherwise."""

from __future__ import annotations

from glassformer.worked import library
from glassformer.worked.check.place import place
from glassformer.worked.check.sheet import Sheet
from glassformer.worked.plan import plan
from glassformer.worked.read import read

S = r"$$\begin{bmatrix} 1 & 2 & 0 & 1 \\ 2 & 4 & 0 & 2 \\ 0 & 0 & 0 & 0 \\ 1 & 2 & 0 & 1 \end{bmatrix}$$"


def placed(exercise: str, text: str) -> Sheet:
    return place(plan(library.get(exercise)), read(text))


def test_a_matrix_by_its_values() -> None:
    sheet = placed("four-tokens", f"We find\n\n{S}")
    assert [p.symbol for p in sheet.placed] == ["S"]
    assert "unnamed, taken as S by its size and values" in sheet.notes[0].assumption


def test_a_wrong_matrix_by_the_words_before_it() -> None:
    wrong = S.replace("4", "7").replace("1", "8").replace("2", "9").replace("0", "5")
    assert [p.symbol for p in placed("four-tokens", f"So the scores are:\n\n{wrong}").placed] == ["S"]
    sheet = placed("four-tokens", f"This is it:\n\n{wrong}")
    assert sheet.placed == []
    assert "it has no name, and no step of its size has half of its numbers" in sheet.unread[0].reason


def test_a_size_that_no_step_has() -> None:
    sheet = placed("four-tokens", r"$$\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{bmatrix}$$")
    assert sheet.unread[0].reason == "it has no name, and no step of this exercise is 2×3"


PRODUCT = (
    r"$$\begin{bmatrix} 0.983 & 0.017 \\ 0.947 & 0.053 \end{bmatrix} OTHER"
    r"\begin{bmatrix} 12 & 8 & 10 \\ 11 & 9 & 13 \end{bmatrix} = "
    r"\begin{bmatrix} 11.983 & 8.017 & 10.051 \\ 11.947 & 8.053 & 10.159 \end{bmatrix}$$"
)


def test_a_product_by_its_factors() -> None:
    sheet = placed("two-heads", PRODUCT.replace("OTHER", ""))
    assert {(p.symbol, p.role) for p in sheet.placed} == {("H1", "answer"), ("A1", "factor"), ("V1", "factor")}
    assert "taken as H1 = A1·V1" in sheet.notes[0].assumption


def test_a_product_with_a_lost_strike() -> None:
    other = r"\begin{bmatrix} 0.359 & 0.987 \\ 0.640 & 0.017 \end{bmatrix}"
    sheet = placed("two-heads", PRODUCT.replace("OTHER", other))
    assert sheet.own()["A1"][0, 0].text == "0.983"
    assert "of 3 matrices the first and third belong to it" in sheet.notes[0].assumption


def test_operands_set_out_are_kept_unless_they_are_another_matrix() -> None:
    text = r"$$Q_1K_1^T = \begin{bmatrix} 4 & 4 & 3 \\ 3 & 5 & 2 \end{bmatrix} \begin{bmatrix} 7 & 6 \\ 8 & 8 \\ 6 & 5"
    text += r" \end{bmatrix} = \begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}$$"
    assert set(placed("two-heads", text).used["QKt1"]) == {"Q1", "K1"}
    assert set(placed("two-heads", text.replace("4 & 4 & 3", "9 & 9 & 9")).used["QKt1"]) == {"K1"}


def test_a_sum_in_prose_belongs_to_the_row_at_hand() -> None:
    text = "For row 2: Exponential: $[e^2, e^4, 1, e^2]$. If we sum them we get circa 70.3763."
    sheet = placed("four-tokens", text)
    assert sheet.own()["Z"][1, 0].text == "70.3763"
    assert sheet.own()["E"][1, 1].text == "e^2" or len(sheet.own()["E"]) == 4


def test_numbers_in_prose_that_belong_nowhere_are_no_complaint() -> None:
    sheet = placed("four-tokens", "The entropy is 1.58 of at most 2.00 bits, and $q_1 = (1, 2)$.")
    assert sheet.unread == []


def test_a_matrix_in_a_formula_that_cannot_be_read() -> None:
    sheet = placed("four-tokens", S.replace("$$", "").join(("$$ 1 & 2 ( ", " .1 $$")).replace("1 & 2 (", r"\foo"))
    assert all(p.symbol == "S" for p in sheet.placed)
