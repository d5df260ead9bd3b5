"""Cells and rows: &, commas, semicolons, spaces, and commas that may be decimal."""

from __future__ import annotations

import pytest

from glassformer.worked.read.chain import formula
from glassformer.worked.read.label import label
from glassformer.worked.read.term import Matrix, Term


def read(source: str) -> tuple[Term, list[str], list[str]]:
    found = formula(source)
    return found.drafts[0].terms[0].term, [p[2] for p in found.problems], [n[2] for n in found.notes]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"\begin{bmatrix} 12, 8, 10 \\ 11, 9, 13 \end{bmatrix}", "[12, 8, 10; 11, 9, 13]"),
        (r"\begin{bmatrix} 1, & 2 \\ 3, & 4 \\ \end{bmatrix}", "[1, 2; 3, 4]"),
        (r"\begin{bmatrix} 4 4 3 \end{bmatrix}", "[4, 4, 3]"),
        ("[1 -2 3]", "[1, -2, 3]"),
        ("[1 - 2, 3]", "[1 - 2, 3]"),
        (r"[1 \cdot 1, 1 \cdot 2]", "[1·1, 1·2]"),
        ("[[1. 2.]\n [3. 4.]]", "[1, 2; 3, 4]"),
        ("2((1, 2), (3, 4))", "2[1, 2; 3, 4]"),
        ("[[1], [2]]", "[1; 2]"),
        (r"\{1, 2\}", "[1, 2]"),
        ("[A | B]", "[A, B]"),
        (r"\left(\begin{matrix} 1 \\ 2 \end{matrix}\right)", "[1; 2]"),
        (r"\begin{array}{c|c} 1 & 2 \\ \hline 3 & 4 \end{array}", "[1, 2; 3, 4]"),
    ],
)
def test_cells(source: str, expected: str) -> None:
    term, problems, _ = read(source)
    assert label(term) == expected
    assert not problems


def test_a_list_is_flat_and_a_matrix_is_not() -> None:
    assert read("[1, 2]")[0].flat  # type: ignore[union-attr]
    assert not read("[[1, 2]]")[0].flat  # type: ignore[union-attr]
    assert not read(r"\begin{bmatrix} 1 & 2 \end{bmatrix}")[0].flat  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "source",
    ["x = 0,1967", "[0,1967]", r"\begin{bmatrix} 0,5 & 1 \end{bmatrix}", r"\begin{bmatrix} 0,053 \end{bmatrix}"],
)
def test_a_comma_that_may_be_decimal_is_not_guessed(source: str) -> None:
    assert any("decimal comma" in problem for problem in [p[2] for p in formula(source).problems])


@pytest.mark.parametrize("source", ["[1,2]", "(1,2,3)", "x = 0{,}1967", "i = 1, 2", "x = 521,428,992"])
def test_commas_that_are_plain(source: str) -> None:
    assert not formula(source).problems


def test_assumptions_are_noted() -> None:
    assert "difference" in read("[1 -2]")[2][0]
    assert "ends of rows" in read("(0,5; 0,25)")[2][0]
    assert [n[2] for n in formula("x = 521,428,992").notes] == ["read as the number 521428992"]


def test_ragged_rows_are_kept_and_told() -> None:
    term, problems, _ = read(r"\begin{bmatrix} 1 & 2 & 3 \\ 4 \end{bmatrix}")
    assert isinstance(term, Matrix)
    assert term.ragged
    assert problems == ["row 2 of the matrix has 1 entry, row 1 has 3"]


@pytest.mark.parametrize("source", ["[]", r"\begin{bmatrix}\end{bmatrix}", "{}"])
def test_nothing_in_brackets(source: str) -> None:
    assert any("nothing" in p[2] or "empty" in p[2] for p in formula(source).problems)
