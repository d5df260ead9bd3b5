"""Names, indices, heads and rows → cells of the plan."""

from __future__ import annotations

import pytest

from glassformer.worked import library
from glassformer.worked.check.place import place
from glassformer.worked.check.sheet import Sheet
from glassformer.worked.plan import plan
from glassformer.worked.read import read


def placed(exercise: str, text: str, name: str = "a.md") -> Sheet:
    return place(plan(library.get(exercise)), read(text, name))


def cells(sheet: Sheet) -> dict[str, dict[tuple[int, int], str]]:
    return {
        symbol: {(i + 1, j + 1): own.text for (i, j), own in found.items()} for symbol, found in sheet.own().items()
    }


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
    sheet = placed("four-tokens", text)
    assert cells(sheet) == {symbol: found}
    assert sheet.unread == []


def test_counting_from_0_is_seen_and_said() -> None:
    sheet = placed("four-tokens", "$q_0 = (1, 2)$, $q_1 = (2, 0)$")
    assert cells(sheet)["Q"] == {(1, 1): "1", (1, 2): "2", (2, 1): "2", (2, 2): "0"}
    assert [note.assumption for note in sheet.notes] == ["the indices of q are counted from 0"]


MATRIX = r"\begin{bmatrix} 3 & 6 & 4 \\ 5 & 5 & 7 \end{bmatrix}"


@pytest.mark.parametrize(
    "text",
    [f"$$Q_2 = {MATRIX}$$", f"$$Q^{{(2)}} = {MATRIX}$$", f"Head 2: $$Q = {MATRIX}$$", rf"$$\Omega_2 = {MATRIX}$$"],
)
def test_the_head_is_an_index_or_in_the_words(text: str) -> None:
    sheet = placed("two-heads", text)
    assert list(cells(sheet)) == ["Q2"]


def test_a_head_that_only_its_values_tell_is_noted() -> None:
    sheet = placed("two-heads", f"$$Q = {MATRIX}$$")
    assert list(cells(sheet)) == ["Q2"]
    assert "taken as Q2 by its values" in sheet.notes[0].assumption


def test_a_head_that_nothing_tells_is_not_guessed() -> None:
    sheet = placed("two-heads", r"$$Q = \begin{bmatrix} 9 & 9 & 9 \\ 9 & 9 & 8 \end{bmatrix}$$")
    assert sheet.placed == []
    assert "it may be Q1 or Q2" in sheet.unread[0].reason


def test_a_wrong_value_is_placed_by_its_name() -> None:
    sheet = placed("two-heads", r"$$Q_1 = \begin{bmatrix} 9 & 9 & 9 \\ 9 & 9 & 8 \end{bmatrix}$$")
    assert list(cells(sheet)) == ["Q1"]


def test_scores_before_they_are_scaled() -> None:
    raw = r"\begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}"
    assert list(cells(placed("root-three", f"$$S = QK^T = {raw}$$"))) == ["QKt"]
    assert list(cells(placed("root-three", rf"$$S = \frac{{QK^T}}{{\sqrt{{d_k}}}} = {raw}$$"))) == ["S"]


def test_rows_that_the_words_call_the_same() -> None:
    sheet = placed("four-tokens", "For row 1 and 4:\n\n$$w_{1,1} = 0.1966$$")
    assert cells(sheet)["A"] == {(1, 1): "0.1966", (4, 1): "0.1966"}
    assert "row 4 is taken to be the same" in sheet.notes[0].assumption


def test_what_does_not_fit_is_listed_with_its_size() -> None:
    sheet = placed("two-heads", r"$$Q_1 = \begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}$$")
    assert sheet.unread[0].reason == "Q1 is 2×3 in this exercise, 2×2 is written"
    assert list(sheet.misshaped) == ["Q1"]


def test_answers_by_symbol_and_partly_by_cell() -> None:
    assert list(cells(placed("two-heads", "QKt2: [[36, 32], [46, 39]]", "a.yaml"))) == ["QKt2"]
    sheet = placed("four-tokens", "symbol,row,column,value\nH,1,2,0.6622\n", "a.csv")
    assert cells(sheet) == {"H": {(1, 2): "0.6622"}}


def test_crossed_out_work_is_kept_apart() -> None:
    sheet = placed("four-tokens", r"$$\cancel{q_1 = (9, 9)}$$ $$q_1 = (1, 2)$$")
    assert cells(sheet)["Q"] == {(1, 1): "1", (1, 2): "2"}
    assert len(sheet.struck) == 1


def test_parameters_are_left_alone() -> None:
    sheet = placed("root-three", "$d_k = 3$ and $foo = 4$")
    assert [item.reason for item in sheet.unread] == ["no step of this exercise is called foo"]


def test_a_name_that_equals_a_name_has_its_numbers() -> None:
    sheet = placed("four-tokens", r"$\alpha_1 = (0.2, 0.53, 0.07, 0.2)$ and $\alpha_4 = \alpha_1$")
    assert cells(sheet)["A"] == {(i, j + 1): t for i in (1, 4) for j, t in enumerate(("0.2", "0.53", "0.07", "0.2"))}
    assert "A" not in cells(placed("four-tokens", r"$\alpha_4 = \alpha_1$"))


def test_a_numbered_word_is_a_name() -> None:
    sheet = placed("two-heads", "Head1 = A1 V1 = [[1, 2, 3], [4, 5, 6]]")
    assert list(cells(sheet)) == ["H1"]
    assert not sheet.unread


def test_exponentials_listed_without_brackets() -> None:
    sheet = placed("four-tokens", "The exponentials are $e^2, e^4, 1, e^2$.")
    assert list(cells(sheet)["E"]) == [(2, 1), (2, 2), (2, 3), (2, 4)]
    assert "E" not in cells(placed("four-tokens", "The exponentials are $e, e^2, 1, e$."))  # row 1 or row 4
