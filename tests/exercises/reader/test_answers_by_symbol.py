"""YAML and JSON answers, with every number as it was written."""

from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Reading, read


def answers_shown(reading: Reading) -> list[tuple[int, str, str]]:
    return [(s.line, s.target.label, label(s.terms[0].term)) for s in reading.statements if s.target]


def test_json() -> None:
    text = '{"Q": [[1, 2], [0.1050, "1/2"]],\n "w_{1,2}": 0.5,\n "A": [[null, 1e-5]], "S": [["-inf", -3]]}'
    assert answers_shown(read(text, "a.json")) == [
        (1, "Q", "[1, 2; 0.1050, 1/2]"), (2, "w_{1,2}", "0.5"), (3, "A", "[, 1e-5]"), (3, "S", "[-∞, -3]"),
    ]  # fmt: skip


def test_json_inside_values_as_solve_writes_it() -> None:
    assert answers_shown(read('{"values": {"Q": [[1]]}, "steps": [{"symbol": "K"}]}', "a.json")) == [(1, "Q", "[1]")]


def test_yaml() -> None:
    text = "title: mine\nQ: [[1, 2.50], [3, sqrt(2)]]\nheads:\n  - {Q: [[1]]}\n  - {Q: [[2]]}\nout_1: [0, 1]\n"
    assert answers_shown(read(text, "a.yaml")) == [
        (2, "Q", "[1, 2.50; 3, √(2)]"), (4, "Q_1", "[1]"), (5, "Q_2", "[2]"), (6, "out_1", "[0, 1]"),
    ]  # fmt: skip


def test_what_is_not_an_answer_is_listed() -> None:
    reading = read('{"Q": [[1, "two apples"], [3, 4]], "?!": 3, "K": [[1, 2], [3]]}', "a.json")
    assert [entry.source for entry in reading.unread] == ["two apples", "?!", "K"]
    assert label(reading.statements[0].terms[0].term) == "[1, ; 3, 4]"


@pytest.mark.parametrize(
    ("text", "name", "fact"),
    [
        ('{"Q": [1,', "a.json", "is not JSON"),
        ("[1, 2]", "a.json", "is not a mapping"),
        ("Q: [1, 2\nK: 3", "a.yaml", "is not YAML"),
        ("just words", "a.yaml", "is not a mapping"),
        ("{}", "a.json", "no answers"),
        ("title: x", "a.yml", "no answers"),
        ("[" * 100_000, "a.json", "nested too deeply|is not JSON"),
        ("{a: " * 200 + "1" + "}" * 200, "a.yaml", "levels|nested|not YAML"),
    ],
)
def test_broken_files(text: str, name: str, fact: str) -> None:
    with pytest.raises(InputError, match=fact) as caught:
        read(text, name)
    assert "\n" not in str(caught.value)


def test_aliases_do_not_explode() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match="more than"):
        read("\n".join(lines), "a.yaml")


def csv_shown(reading: Reading) -> list[tuple[int, str, str]]:
    return [(s.line, s.target.label, label(s.terms[0].term)) for s in reading.statements if s.target]


def test_cells() -> None:
    text = "symbol,row,column,value\nQ,1,1,0.10\nQ,1,2,-3\nQ,2,2,1/2\nz,,,4\n"
    assert csv_shown(read(text, "a.csv")) == [(2, "Q", "[0.10, -3; , 1/2]"), (5, "z", "4")]


def test_a_matrix_in_latex_as_one_value() -> None:
    assert answers_shown(read("Q: \\begin{bmatrix}1 & 2\\end{bmatrix}\n", "a.yaml")) == [(1, "Q", "[1, 2]")]


def test_columns_in_any_order() -> None:
    assert csv_shown(read("Value;Symbol;Col;Row\n2;Q;1;1\n", "a.csv")) == [(2, "Q", "[2]")]


@pytest.mark.parametrize("text", ["Q\n1,2\n3,4\n\nK\n5\n", "Q,1,2\nQ,3,4\nK,5\n", "Q=\n1\t2\n3\t4\nK\t5\n"])
def test_blocks_and_rows(text: str) -> None:
    found = [(symbol, value) for _, symbol, value in csv_shown(read(text, "a.csv"))]
    assert found == [("Q", "[1, 2; 3, 4]"), ("K", "5")]


def test_decimal_commas_between_semicolons() -> None:
    reading = read("symbol;row;column;value\nQ;1;1;0,10\n", "a.csv")
    assert csv_shown(reading) == [(2, "Q", "[0.10]")]
    assert "decimal comma" in reading.notes[0].assumption


def test_what_is_wrong_is_listed() -> None:
    text = "symbol,row,column,value\nQ,0,1,2\nQ,1,1,2\nQ,1,1,3\n,1,1,2\nQ,1,2,x y z w\nQ,1,²,1\n"
    assert [(entry.line, entry.reason.split(" ")[0]) for entry in read(text, "a.csv").unread] == [
        (2, "row"), (4, "this"), (5, "the"), (6, "this"), (7, "row"),
    ]  # fmt: skip


def test_numbers_without_a_symbol() -> None:
    assert "no symbol" in read("1,2\n3,4\n", "a.csv").unread[0].reason


def test_empty() -> None:
    with pytest.raises(InputError, match="no answers"):
        read("\n\n", "a.csv")


def test_numbers_of_columns_over_labelled_rows_are_no_row() -> None:
    text = "Q,1,2\ntoken 1,3,5\ntoken 2,4,6\n,,\ntoken,1,2\ntoken 1,7,8\ntoken 2,9,0\n"
    assert answers_shown(read(text, "a.csv")) == [(1, "Q", "[3, 5; 4, 6]")]


def test_patches_are_rows_below_their_title() -> None:
    assert answers_shown(read("P,,\npatch 1,3,5\npatch 2,4,6\n", "a.csv")) == [(1, "P", "[3, 5; 4, 6]")]


def test_the_factors_of_a_title_name_the_head() -> None:
    text = "S = Q1K1^T/sqrt(2),\n3,5\n,\nS = Q2K2^T/sqrt(2),\n4,6\n,\nX = X0 + PE,\n7,8\n,\nO = C WO,\n1,2\n"
    assert [name for _, name, _ in answers_shown(read(text, "a.csv"))] == ["S_1", "S_2", "X", "O"]
