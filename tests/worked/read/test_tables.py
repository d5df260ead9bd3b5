"""Tables of numbers are matrices, of names and numbers statements, of words nothing."""

from __future__ import annotations

from glassformer.worked.read.label import label
from glassformer.worked.read.tables import Table, latex_table, markdown_table


def shown(table: Table) -> list[tuple[int, str | None, str]]:
    return [(line, label(target) if target else None, label(term)) for line, _, target, term in table.chains]


def test_a_matrix_with_names_around_it() -> None:
    table = markdown_table("| A | k1 | k2 |\n|---|---|---|\n| q1 | 0.25 | 0.75 |\n| q2 | 0.50 | 1/2 |", 3)
    assert shown(table) == [(3, "A", "[0.25, 0.75; 0.50, 1/2]")]
    assert not table.problems


def test_a_matrix_with_numbered_rows_and_columns() -> None:
    table = markdown_table("| A | 1 | 2 |\n|---|---|---|\n| 1 | 0.25 | 0.75 |\n| 2 | 0.5 | 0.5 |", 1)
    assert shown(table) == [(1, "A", "[0.25, 0.75; 0.5, 0.5]")]


def test_names_and_numbers() -> None:
    table = markdown_table("| weight | value |\n|---|---|\n| $w_{1,1}$ | 0.1967 |\n| w_12 | $e^2/2$ |", 1)
    assert shown(table) == [(3, "w_{1,1}", "0.1967"), (4, "w_{12}", "e^2/2")]


def test_words_are_read_for_their_formulas() -> None:
    table = markdown_table("Net\tCost\nCNN\t$O(k^2)$ for one\nRNN\t$O(n)$", 1)
    assert not table.chains
    assert table.formulas == [(2, "O(k^2)"), (3, "O(n)")]


def test_what_cannot_be_told_apart_is_said() -> None:
    assert "3 to 4 cells" in markdown_table("1\t2\t3\n1\t2\t3\t4", 1).problems[0][2]
    assert "not a number" in markdown_table("| a | b |\n|---|---|\n| 1 | 4 5 6 |\n| 2 | 3 |", 1).problems[0][2]
    assert "cannot be told" in markdown_table("from\tto\tx\tamount\nx\ty\tz\t4 6", 1).problems[0][2]


def test_tabular() -> None:
    table = latex_table("{c|cc}\n\\hline\n & $k_1$ & $k_2$ \\\\ \\hline\n$q_1$ & 4 & 6 \\\\\n$q_2$ & 1 & 2 \\\\\n", 1)
    assert shown(table) == [(1, None, "[4, 6; 1, 2]")]


def test_vectors_under_their_names() -> None:
    table = markdown_table("| token | q | $k_i$ |\n|---|---|---|\n| 1 | (1, 2) | (1, 0) |\n| token 2 | [3, 4] | |", 1)
    assert shown(table) == [(3, "q_1", "[1, 2]"), (3, "k_1", "[1, 0]"), (4, "q_2", "[3, 4]")]
    assert not table.problems


def test_vectors_of_nobody_knows_which_token_are_said() -> None:
    table = markdown_table("| who | q | k |\n|---|---|---|\n| cat | (1, 2) | (1, 0) |\n| dog | (3, 4) | (2, 1) |", 1)
    assert not table.chains
    assert "which vectors these are" in table.problems[0][2]
