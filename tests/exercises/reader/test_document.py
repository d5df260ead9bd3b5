"""Cutting documents: where mathematics begins and ends."""

from __future__ import annotations

import pytest

from glassformer.exercises.printers.text import label
from glassformer.exercises.reader.document import TableContents, latex_table, markdown_table, pieces, scan

ONE = r"\begin{bmatrix}1\end{bmatrix}"


def cut(text: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in pieces(text) if piece.text.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so $x = 1$.", [("prose", "so"), ("inline", "x = 1"), ("prose", ".")]),
        (r"so \(x = 1\)", [("prose", "so"), ("inline", "x = 1")]),
        ("$$x = 1$$", [("display", "x = 1")]),
        (r"\[x = 1\]", [("display", "x = 1")]),
        (r"\begin{align*}a&=1\end{align*}", [("display", r"\begin{align*}a&=1\end{align*}")]),
        ("it costs $5 and then $10", [("prose", "it costs $5 and then $10")]),
        (r"a \$5 note", [("prose", r"a \$5 note")]),
        ("```\nQ = 1\n```\nend", [("code", "Q = 1"), ("prose", "end")]),
        ("a `x = 1` b", [("prose", "a"), ("code", "x = 1"), ("prose", "b")]),
        ("a <!-- $x = 1$ --> b", [("prose", "a"), ("prose", "b")]),
        ("![a scan](scan.png)", [("picture", "![a scan](scan.png)")]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nend", [("table", "| a | b |\n|---|---|\n| 1 | 2 |"), ("prose", "end")]),
        ("a\tb\n1\t2\nend", [("table", "a\tb\n1\t2"), ("prose", "end")]),
        (r"\begin{tabular}{cc}1&2\end{tabular}", [("tabular", "{cc}1&2")]),
        (r"\begin{verbatim}Q = 1\end{verbatim}", [("code", "Q = 1")]),
        ("open $$x = 1\n\nnext", [("prose", "open"), ("open", "x = 1"), ("prose", "next")]),
        (
            "$$a = 1\n\nhere we have some more words, then\n\n$$b = 2$$",
            [("open", "a = 1"), ("prose", "here we have some more words, then"), ("display", "b = 2")],
        ),
        (f"so Q = {ONE} {ONE} = {ONE}", [("prose", "so"), ("display", f"Q = {ONE} {ONE} = {ONE}")]),
    ],
)
def test_pieces(text: str, expected: list[tuple[str, str]]) -> None:
    assert cut(text) == expected


def test_lines() -> None:
    text = "one\n\n$$a\n= 1$$\ntwo $b$\n\n```\nc = 2\n```\n"
    assert [(piece.kind, piece.line) for piece in pieces(text) if piece.text.strip()] == [
        ("prose", 1), ("display", 3), ("prose", 4), ("inline", 5), ("code", 8),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["~~$x = 1$~~ $y = 2$", "<del>$x = 1$</del> $y = 2$", "<s>a $x = 1$</s> $y = 2$"])
def test_crossed_out(text: str) -> None:
    assert [piece.crossed for piece in pieces(text) if piece.kind == "inline"] == [True, False]


def test_a_strike_that_never_closes_is_none() -> None:
    assert not any(piece.crossed for piece in pieces("about ~~5 $x = 1$\n\n$y = 2$ ~~"))


def test_nothing_is_lost() -> None:
    text = "a $x$ b $$y$$ c `d` e\n"
    assert "".join(piece.text for piece in pieces(text)) == "a x b y c d e\n"


def found(text: str, *, code: bool = False) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in scan(text, 1, code=code) if event.kind != "words"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So Q = [[1, 2], [3, 4]] and K = [5].", [("formula", "Q = [[1, 2], [3, 4]]"), ("formula", "K = [5]")]),
        ("The total is 14 x 14 = 196. We go on.", [("formula", "14 x 14 = 196")]),
        ("If we sum them we get circa 13.8256.", [("number", "13.8256")]),
        ("The weights are 0.1966, 0.5344, 0.0723.", [("number", "[0.1966, 0.5344, 0.0723]")]),
        ("Q: [[1, 2], [3, 4]]", [("formula", "Q: [[1, 2], [3, 4]]")]),
        ("For row 1: [0.5, 0.5]", [("formula", "[0.5, 0.5]")]),
        ("**Q** = [1, 2] and *K* = [3, 4]", [("formula", "Q = [1, 2]"), ("formula", "K = [3, 4]")]),
        ("The sum is 14.", [("number", "14")]),
        ("- w_12 = e^2/13.8256 = 0.5343", [("formula", "w_12 = e^2/13.8256 = 0.5343")]),
        ("1. S11 = 1*2 + 2*1 = 4", [("formula", "S11 = 1*2 + 2*1 = 4")]),
        ("Sum = 13.8256", [("formula", "Sum = 13.8256")]),
        ("the exponentials are [e, e^2, 1, e] here", [("formula", "[e, e^2, 1, e]")]),
        ("softmax([1, 2]) = [0.27, 0.73]", [("formula", "softmax([1, 2]) = [0.27, 0.73]")]),
        ("Q =\n1 2\n3 4", [("formula", "Q = [1 2; 3 4]")]),
        ("1 2\n3 4\nend", [("formula", "[1 2; 3 4]")]),
        ("Q = [[1, 2],\n     [3, 4]]", [("formula", "Q = [[1, 2],\n     [3, 4]]")]),
        (r"so 0.5 \cdot 2 = 1", [("formula", r"0.5 \cdot 2 = 1")]),
        ("an image of 224x224 and a patch size of 16x16", []),
        ("We have 3 tokens and 2 heads.", []),
        ("See section 3.2 and Table 1.5.", []),
        ("On 2024-05-12 at 10:30 it was the 2nd time.", []),
        ("and/or self-attention, e.g. (see above) - fine", []),
        ("https://example.org/a=1?b=2.5", []),
    ],
)
def test_scan(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_code_is_read_line_by_line() -> None:
    code = "import numpy as np\nQ = np.array([[1, 2]])\nA = softmax(Q @ K.T / np.sqrt(2))  # weights\nprint(Q)"
    assert found(code, code=True) == [("formula", "Q = ([[1, 2]])"), ("formula", "A = softmax(Q @ K^T / sqrt(2))")]


def test_lines_are_counted() -> None:
    events = [event for event in scan("one\n\na = 1\nb = 2", 5) if event.kind == "formula"]
    assert [event.line for event in events] == [7, 8]


def test_endless_lines_are_reported() -> None:
    assert found("1 " * 20_000)[0][0] == "long"


def test_words_come_before_their_formula() -> None:
    events = [(event.kind, event.text.strip()) for event in scan("For row 2 we get x = 3", 1)]
    assert events == [("words", "For row 2"), ("words", "we get"), ("formula", "x = 3")]


def shown(table: TableContents) -> list[tuple[int, str | None, str]]:
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


def test_ambiguous_tables_are_reported() -> None:
    assert "3 to 4 cells" in markdown_table("1\t2\t3\n1\t2\t3\t4", 1).problems[0][2]
    assert "as a number" in markdown_table("| a | b |\n|---|---|\n| 1 | 4 5 6 |\n| 2 | 3 |", 1).problems[0][2]
    assert "unclear" in markdown_table("from\tto\tx\tamount\nx\ty\tz\t4 6", 1).problems[0][2]


def test_tabular() -> None:
    table = latex_table("{c|cc}\n\\hline\n & $k_1$ & $k_2$ \\\\ \\hline\n$q_1$ & 4 & 6 \\\\\n$q_2$ & 1 & 2 \\\\\n", 1)
    assert shown(table) == [(1, None, "[4, 6; 1, 2]")]


def test_vectors_under_their_names() -> None:
    table = markdown_table("| token | q | $k_i$ |\n|---|---|---|\n| 1 | (1, 2) | (1, 0) |\n| token 2 | [3, 4] | |", 1)
    assert shown(table) == [(3, "q_1", "[1, 2]"), (3, "k_1", "[1, 0]"), (4, "q_2", "[3, 4]")]
    assert not table.problems


def test_vectors_without_a_token_are_reported() -> None:
    table = markdown_table("| who | q | k |\n|---|---|---|\n| cat | (1, 2) | (1, 0) |\n| dog | (3, 4) | (2, 1) |", 1)
    assert not table.chains
    assert "which vectors these are" in table.problems[0][2]
