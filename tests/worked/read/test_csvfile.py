"""CSV in its three forms."""

from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.worked.read import Reading, label, read


def shown(reading: Reading) -> list[tuple[int, str, str]]:
    return [(s.line, s.target.label, label(s.terms[0].term)) for s in reading.statements if s.target]


def test_cells() -> None:
    text = "symbol,row,column,value\nQ,1,1,0.10\nQ,1,2,-3\nQ,2,2,1/2\nz,,,4\n"
    assert shown(read(text, "a.csv")) == [(2, "Q", "[0.10, -3; , 1/2]"), (5, "z", "4")]


def test_columns_in_any_order() -> None:
    assert shown(read("Value;Symbol;Col;Row\n2;Q;1;1\n", "a.csv")) == [(2, "Q", "[2]")]


@pytest.mark.parametrize("text", ["Q\n1,2\n3,4\n\nK\n5\n", "Q,1,2\nQ,3,4\nK,5\n", "Q=\n1\t2\n3\t4\nK\t5\n"])
def test_blocks_and_rows(text: str) -> None:
    assert [(symbol, value) for _, symbol, value in shown(read(text, "a.csv"))] == [("Q", "[1, 2; 3, 4]"), ("K", "5")]


def test_decimal_commas_between_semicolons() -> None:
    reading = read("symbol;row;column;value\nQ;1;1;0,10\n", "a.csv")
    assert shown(reading) == [(2, "Q", "[0.10]")]
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
