"""Notations of students that were once misread: each short text is read as the answers it contains."""

from __future__ import annotations

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import render, solve

ONE_HEAD = load_exercise(
    "labels: [we, like, tea]\nX: [[1, 0], [1, 1], [2, 1]]\n"
    "heads: [{WQ: [[2, 0], [0, 1]], WK: [[1, 1], [1, 0]], WV: [[1, 3], [2, 0]]}]\n"
)
TWO_HEADS = load_exercise(
    "X: [[1, 0], [0, 1]]\nheads:\n"
    "  - {WQ: [[1, 0], [0, 1]], WK: [[1, 1], [0, 1]], WV: [[1, 0], [2, 1]]}\n"
    "  - {WQ: [[3, 0], [0, 2]], WK: [[0, 1], [1, 0]], WV: [[0, 5], [1, 0]]}\nWO: [[1], [0], [0], [1]]\n"
)
CAUSAL = load_exercise("Q: [[1, 1], [2, 0]]\nK: [[1, 0], [1, 1]]\nV: [[1, 2], [3, 4]]\nmask: causal\n")
BLOCK = load_exercise("X: [[1, 3], [2, 8]]\nlayernorm: true\n")


def graded(text: str, exercise: object = ONE_HEAD) -> Grade:
    return grade(exercise, read(f"{text}\n"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "symbol", "count"),
    [
        ("q1.k1 = 2   q1.k2 = 4   q1.k3 = 6", "QKt", 3),
        ("q1·k1 = 2 q1·k2 = 4 q1·k3 = 6", "QKt", 3),
        ('The values are (1, 3) for "we", (3, 3) for "like" and (4, 6) for "tea".', "V", 6),
        ('The output for "we" is (3.68, 5.30), for "like" (3.82, 5.61).', "O", 4),
        (
            'Divided by √2, the scores of "we" are 1.41, 2.83 and 4.24, those of "like" are\n2.12, 3.54 and 5.66.',
            "S", 6,
        ),
        ('"we" attends to itself with 0.045 and to "tea" with 0.768.', "A", 2),
        ("Token 1: q = [2 0], k = [1 1], v = [1 3]", "K", 2),
        ("q0 = [2, 0]\nk0 = [1, 1]\nscore(q0,k0) = 2/sqrt(2) = 1.4142, score(q0,k2) = 6/sqrt(2) = 4.2426", "S", 2),
        ("Q = 2 0\n    2 1\n    4 1", "Q", 6),
        ("Q = | 2 0 | , K = | 1 1 |\n    | 2 1 |       | 2 1 |\n    | 4 1 |       | 3 2 |", "K", 6),
        ("query 1:\nsoftmax 0.045 / 0.187 / 0.768", "A", 3),
        ("outputs\nwe → (3.68, 5.30), like → (3.82, 5.61)", "O", 4),
        ("dot products\nwe-we 2, we-like 4, we-tea 6", "QKt", 3),
        ("Output 1 = 0.045·(1, 3) + 0.187·(3, 3) + 0.768·(4, 6) = (3.68, 5.30)", "O", 2),
        (r"$o_1 = \binom{3.68}{5.30}$", "O", 2),
        ("q1 = ( 2 0 )\nq2 = ( 2 1 )", "Q", 4),
        ("| k1 | 1 | 1 |\n|---|---|---|\n| k2 | 2 | 1 |\n| k3 | 3 | 2 |", "K", 6),
        ("I call the tokens \"cat\", \"sat\" and \"mat\".\n\nQueries:  cat (2, 0)   sat (2, 1)   mat (4, 1)", "Q", 6),
        (r"$q_i = \begin{cases} (2, 0) & i = 1 \\ (2, 1) & i = 2 \\ (4, 1) & i = 3 \end{cases}$", "Q", 6),
    ],
)  # fmt: skip
def test_every_number_is_found_and_right(text: str, symbol: str, count: int) -> None:
    found = graded(text)
    cells = [cell for cell in found.cells if cell.given is not None]
    assert sum(cell.symbol == symbol for cell in cells) == count
    assert {cell.verdict for cell in cells} <= {"right", "follows"}
    assert not found.accounting.unread
    assert not found.mistakes


def test_the_same_names_again_are_the_next_head() -> None:
    first, second = "Q = [[1, 0], [0, 1]]\nK = [[1, 1], [0, 1]]", "Q = [[3, 0], [0, 2]]\nK = [[0, 1], [1, 0]]"
    found = graded(f"{first}\n\n{second}", TWO_HEADS)
    written = {cell.symbol: cell.verdict for cell in found.cells if cell.given is not None}
    assert written == {"Q1": "right", "K1": "right", "Q2": "right", "K2": "right"}


def test_kopf_is_a_head() -> None:
    found = graded("## Kopf 2\n\n$Q = \\begin{pmatrix} 9 & 9 \\\\ 9 & 9 \\end{pmatrix}$", TWO_HEADS)
    assert {cell.symbol for cell in found.cells if cell.given is not None} == {"Q2"}


def test_scores_with_minus_infinity_are_the_masked_ones() -> None:
    found = graded("$\\tilde S = \\begin{pmatrix} 0.7071 & -\\infty \\\\ 1.4142 & 1.4142 \\end{pmatrix}$", CAUSAL)
    assert {(cell.symbol, cell.verdict) for cell in found.cells if cell.given is not None} == {("S", "right")}


@pytest.mark.parametrize("text", ["$\\frac{1}{\\sqrt{d_k}} = 0.7071$", "1/√d_k ≈ 0.707", "√d_k = 1.414"])
def test_the_scale_is_checked(text: str) -> None:
    found = graded(f"{text}\n\nq1 = (2, 0)")
    assert found.accounting.arithmetic
    assert not found.accounting.unread


def test_a_wrong_scale_is_listed_with_the_right_one() -> None:
    (unread,) = graded("√d_k = 1.73\n\nq1 = (2, 0)").unread
    assert unread.reason == "√(d_k) is 1.41 in this exercise"


def test_a_standard_deviation_is_checked_and_no_step() -> None:
    found = graded("$\\sigma_1 = 1$ and $\\sigma_2 = 3$, $\\mu_1 = 2$", BLOCK)
    assert [cell.symbol for cell in found.cells if cell.given is not None] == ["mu"]
    assert not found.accounting.unread
    assert graded("$\\sigma_1 = 2.50$, $\\mu_1 = 2$", BLOCK).unread


def test_row_sums_are_not_the_sums_of_exponentials() -> None:
    found = graded("q1 = (2, 0)\n\nrow sums: [1. 1. 1.]")
    assert {cell.symbol for cell in found.cells if cell.given is not None} == {"Q"}
    assert not found.accounting.unread


@pytest.mark.parametrize("text", ["Each row sums to 1.", "Homework 3", "we multiply by 0.7071 to scale", "Over √2:"])
def test_numbers_that_are_no_answers_are_recognised(text: str) -> None:
    assert not graded(f"q1 = (2, 0)\n\n{text}").accounting.unread


def test_the_sum_of_written_exponentials_follows() -> None:
    exercise = load_exercise("Q: [[2, 0]]\nK: [[1, 0], [1/4, 1]]\nV: [[1, 2], [3, 4]]\nscale: none\n")
    text = "Softmax for query 1: e^2 = 7.38, e^0.5 = 1.64, the sum is 9.02. So the weights are 0.82 and 0.18."
    found = graded(text, exercise)
    written = {(cell.symbol, cell.verdict) for cell in found.cells if cell.given is not None}
    assert written == {("E", "right"), ("Z", "follows"), ("A", "right")}


def test_the_digits_of_floating_point_numbers_are_not_held_against_anyone() -> None:
    found = grade(ONE_HEAD, read(render(solve(ONE_HEAD), "json"), "answers.json"))
    assert found.score == 1


def test_a_table_by_query_and_key() -> None:
    text = "query,key,score,scaled score,weight\n1,1,2,1.414,0.045\n1,2,4,2.828,0.187\n1,3,6,4.243,0.768\n"
    found = grade(ONE_HEAD, read(text, "a.csv"))
    assert {cell.symbol for cell in found.cells if cell.given is not None} == {"QKt", "S", "A"}
    assert all(cell.verdict == "right" for cell in found.cells if cell.given is not None)
    assert not found.accounting.unread


def test_long_numbers_in_a_vector_are_read_in_linear_time() -> None:
    digits = ", ".join(["9" * 20] * 40)
    assert graded(f"Q = ({digits},\n\nq1 = (2, 0)").cells  # exponential time before: it did not end


@pytest.mark.parametrize(
    "text",
    [
        "weight of key 1: 7.3891 / 10.1073 = 0.7311",  # of which query?
        "exp(0) = 1, exp(-1) = 0.3679, exp(-2) = 0.1353, exp(-3) = 0.0498",  # not of these scores
        "Softmax turns $(5, 2, 3, 1)$ into others, for instance $(0.8, 0, 0.1, 0.1)$ would become $(0.8, 0, 0, 0)$.",
    ],
)
def test_numbers_of_no_known_cell_are_not_graded(text: str) -> None:
    found = graded(text, library.get("four-tokens"))
    assert not [cell for cell in found.cells if cell.given is not None]


BUS = load_exercise(
    "X: [[1, 0], [1, 2], [0, 1]]\nheads: [{WQ: [[1, 1], [0, 1]], WK: [[2, 0], [0, 1]], WV: [[1, 0], [1, 2]]}]\n"
)
STAGES = "**Attention** – dot products → divide by √2 → exp → normalise\n\n"
CHAIN = "- token 1: [2, 4, 1] → [1.414, 2.828, 0.707] → [4.113, 16.919, 2.028] → [0.178, 0.734, 0.088]\n"


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("- q1 = (1, 1) | k1 = (2, 0) | v1 = (1, 0)", "Q K V"),
        (STAGES + CHAIN, "QKt S E A"),
        ("q1 = ⟨1, 1⟩ and k1 = ⟨2, 0⟩", "Q K"),
        ("Q = [1, ~~2~~ 1; 1, 3; ~~-1~~ 0, 1]", "Q"),
        ("| O | 1 | 2 |\n|-|-|-|\n| t1 | ~~2~~ 2.467 | 3.111 |\n| t2 | 2.917 | 3.889 |\n| t3 | 2.152 | 2.87 |", "O"),
        ("17/11/2026, 14:04 - Ana: weights\ntoken 1: .178 .734 .088\n17/11/2026, 14:05 - Bo: ok", "A"),
        ("Token 1\n\n| Query | 1, 1 |\n|---|---|\n| Scores | 2, 4, 1 |\n| Scaled | 1.414, 2.828, 0.707 |", "Q QKt S"),
        ("| 1 1 |\nQ = X WQ = | 1 3 |\n| 0 1 |\n| 2 4 1 |\nQ KT = | 2 8 3 |\n| 0 2 1 |", "Q QKt"),
    ],
)  # fmt: skip
def test_forms_of_the_sixth_pile(text: str, symbols: str) -> None:
    found = graded(text, BUS)
    written = {(cell.symbol, cell.verdict) for cell in found.cells if cell.given is not None}
    assert written == {(symbol, "right") for symbol in symbols.split()}
    assert not found.accounting.unread


def test_a_chain_without_a_heading_is_not_taken_for_one_quantity() -> None:
    found = graded("Scores\n\n" + CHAIN, BUS)
    assert "wrong" not in {cell.verdict for cell in found.cells}


def test_a_chain_of_another_length_than_its_heading_is_not_assigned_by_it() -> None:
    found = graded(STAGES + "- token 1: [2, 4, 1] → [0.178, 0.734, 0.088]", BUS)
    assert "wrong" not in {cell.verdict for cell in found.cells}


def test_the_sources_of_mathjax_2_are_read() -> None:
    source = '<p><span class="MathJax">Q=(1)</span><script type="math/tex">q_1 = (1, 1)</script></p>'
    page = read(f"<html><body>{source}</body></html>".encode(), "a.html")
    written = [(cell.symbol, cell.verdict) for cell in grade(BUS, page).cells if cell.given is not None]
    assert written == [("Q", "right")] * 2


def test_a_crossed_out_number_is_noted() -> None:
    (note,) = [note for note in read("Q = [1, ~~2~~ 1; 1, 3; 0, 1]").notes if "~~" in note.source]
    assert note.source == "~~2~~"


def test_a_token_of_the_exercise_is_not_a_wrong_answer() -> None:
    found = graded("LAYERNORM BY HAND\n\nfirst token, [1 2 3]\n\nmean: (1+2+3)/3 = 2", library.get("layernorm"))
    assert "wrong" not in {cell.verdict for cell in found.cells}
    assert not found.mistakes


def test_matrices_that_are_said_to_be_transposed_are_read_so() -> None:
    text = (
        "I write one token per row, so my tables are the transposes of yours.\n\n"
        "token     query      key        value\nfirst     1 1        0 1        1 1\n"
        "second    0 1        1 0        1 -1\nthird     2 3        1 1        3 1\n\n"
        "dot products, query of the row with key of the column\n             first   second    third\n"
        "first            1        1        2\nsecond           1        0        1\n"
        "third            3        2        5\n"
    )
    found = graded(text, library.get("columns"))
    wrong = [(cell.symbol, cell.row, cell.column) for cell in found.cells if cell.verdict == "wrong"]
    assert wrong == [("K", 2, 3)]  # the dot products follow from it
    assert len([cell for cell in found.cells if cell.symbol == "KtQ" and cell.given is not None]) == 9


BETA_TABLE = """The query is q = (1, 0), and β = 2.

| key | q·k | logit | exp | weight |
|---|---|---|---|---|
| k1 | 1 | 2 | 7.3891 | 0.4683 |
| k2 | 0 | 0 | 1 | 0.0634 |
| k3 | 1 | 2 | 7.3891 | 0.4683 |
| sum | | | 15.7781 | 1 |
"""
COMPONENTS = """<table><tr><th>token</th><th colspan=2>query</th><th colspan=2>key</th></tr>
<tr><td>1</td><td>2</td><td>0</td><td>1</td><td>1</td></tr><tr><td>2</td><td>2</td><td>1</td><td>2</td><td>1</td></tr>
<tr><td>3</td><td>4</td><td>1</td><td>3</td><td>2</td></tr></table>"""
FRAME = "S:\n           to 1    to 2    to 3\ntoken 1  1.4142  2.8284  4.2426\ntoken 2  2.1213  3.5355  5.6569\n"
FRAME += "token 3  3.5355  6.3640  9.8995\n"
WITH_SUMS = """| exponentials | k1 | k2 | k3 | total |
|---|---|---|---|---|
| q1 | 4.11 | 16.92 | 69.59 | 90.62 |
| q2 | 8.34 | 34.31 | 286.25 | 328.90 |
| q3 | 34.31 | 580.54 | 19920.31 | 20535.16 |
"""
R_SESSION = "> m <- rowMeans(X)\n> m\n[1] 2 5\n"
NESTED = "queries:\n  pos 0: [2, 0]\n  pos 1: [2, 1]\n  pos 2: [4, 1]\nremarks:\n  - position 2 is longest\n"


@pytest.mark.parametrize(
    ("text", "name", "exercise", "counts"),
    [
        (BETA_TABLE, "a.md", library.get("beta"), {"QKt": 3, "S": 3, "E": 3, "Z": 1, "A": 3}),
        (COMPONENTS, "a.html", ONE_HEAD, {"Q": 6, "K": 6}),
        (FRAME, "a.txt", ONE_HEAD, {"S": 9}),
        ("q [[2., 0.],\n   [2., 1.],\n   [4., 1.]]\n", "a.txt", ONE_HEAD, {"Q": 6}),
        (NESTED, "a.yaml", ONE_HEAD, {"Q": 6}),
        ("W query;;;Queries;;;total\n;2;0;2;0\n;0;1;2;1\n;;;4;1\n".replace(";total", ""), "a.csv", ONE_HEAD, {"Q": 6}),
        ("**we** attends to we with 0.045, to like with 0.187 and to tea with 0.768.\n", "a.md", ONE_HEAD, {"A": 3}),
        ("## Token 3\n\nThe scores are $3.54, 6.36, 9.90$.\n", "a.md", ONE_HEAD, {"S": 3}),
        (WITH_SUMS, "a.md", ONE_HEAD, {"E": 9, "Z": 3}),
        (R_SESSION, "a.txt", BLOCK, {"mu": 2}),
        ("Mixing the values, I get\n\n- we: (3.68, 5.30)\n- like: (3.82, 5.61)\n", "a.md", ONE_HEAD, {"H": 4}),
    ],
)  # fmt: skip
def test_tables_printouts_and_lists(text: str, name: str, exercise: object, counts: dict[str, int]) -> None:
    found = grade(exercise, read(text, name))  # type: ignore[arg-type]
    cells = [cell for cell in found.cells if cell.given is not None]
    for symbol, count in counts.items():
        assert sum(cell.symbol == symbol for cell in cells) == count, symbol
    assert {cell.verdict for cell in cells} <= {"right", "follows"}


def given(found: Grade) -> dict[tuple[str, int, int], tuple[str, str]]:
    cells = [cell for cell in found.cells if cell.given is not None]
    return {(cell.symbol, cell.row, cell.column): (str(cell.given), cell.verdict) for cell in cells}


def test_a_comparison_with_another_scale_is_not_an_answer() -> None:
    text = "With β = 2 the weights are 0.4683, 0.0634, 0.4683.\n\nFor β = 1 the weights were about 0.42, 0.16, 0.42."
    found = graded(text, library.get("beta"))
    assert given(found)["A", 1, 2] == ("0.0634", "right")
    assert not found.mistakes


def test_a_sentence_does_not_replace_an_answer() -> None:
    text = "A = [[0.045, 0.187, 0.768], [0.025, 0.104, 0.870], [0.002, 0.028, 0.970]]\n\n"
    found = graded(text + '"we" attends to itself with 0.768.')  # the number of another cell
    assert given(found)["A", 1, 1] == ("0.045", "right")
    assert not found.accounting.unread
    found = graded(text + '"we" attends to itself with 0.333.')
    assert given(found)["A", 1, 1] == ("0.045", "right")
    assert [item.reason for item in found.unread] == [
        "A has other numbers in line 1, and a sentence does not replace them"
    ]


def test_a_name_that_is_written_again_may_be_a_later_step() -> None:
    block = library.get("block")
    solved = solve(block)
    rows = {s: "\n".join(",".join(f"{float(x):.4f}" for x in row) for row in solved[s]) for s in ("O", "NF")}
    found = grade(block, read(f"output\n{rows['O']}\n\nblock output\n{rows['NF']}\n", "a.csv"))
    assert {cell.symbol for cell in found.cells if cell.given is not None} == {"O", "NF"}
    assert {verdict for _, verdict in given(found).values()} == {"right"}


def test_components_of_the_output() -> None:
    text = "Output:\n\n- first component: 4·0.4683 = 1.8732\n- second component: 3·0.0634 + 0.4683 = 0.6585\n"
    assert given(graded(text, library.get("beta"))) == {
        ("H", 1, 1): ("1.8732", "right"), ("H", 1, 2): ("0.6585", "follows"),
    }  # fmt: skip


@pytest.mark.parametrize("gap", [" ", "\n"])
def test_names_in_running_text_belong_to_their_vectors(gap: str) -> None:
    text = f"The queries are q1 = (1, 0) and q2 = (0, 2), keys k1 = (0, 1) and k2 = (2, 0), and the values v1 ={gap}"
    found = given(graded(f"{text}(2, 0) and v2 = (0, 2).", library.get("residual")))
    assert {place[0] for place in found} == {"Q", "K", "V"}
    assert len(found) == 12
    assert {verdict for _, verdict in found.values()} == {"right"}


def test_one_number_tells_a_forgotten_mask() -> None:
    found = graded("S = [[1, -inf, -inf], [2, 2, 4], [3, 2, 5]]", library.get("causal"))
    assert [mistake.name for mistake in found.mistakes] == ["mask forgotten"]


def test_a_parameter_is_counted_once() -> None:
    text = "gamma = (1, 2, 1), beta = (0, 0, 1)\n\nNormalised\n\n"
    text += "token 1: -1.225  0  1.225\ntoken 2: 0.707  0.707  -1.414\n"
    found = graded(text, library.get("layernorm"))
    assert len([cell for cell in found.cells if cell.symbol == "N" and cell.given is not None]) == 6
    assert not found.accounting.unread


@pytest.mark.parametrize(
    ("text", "exercise", "counts"),
    [
        ("Means: m1 = 2   m2 = 5", BLOCK, {"mu": 2}),
        (
            '## Scores\n\nThe scores of "we" are 1.41, 2.83, 4.24.\n\n'
            "*like* asks with (2, 1). Divided by the root, with we, like, tea: 2.12, 3.54, 5.66.\n",
            ONE_HEAD, {"S": 6},
        ),
        ("row 3: the scores are large\n  -> weights  0.002  0.028  0.970\n", ONE_HEAD, {"A": 3}),
        ("token,q1,q2\n1,2,0\n2,2,1\n3,4,1\n", ONE_HEAD, {"Q": 6}),
    ],
)  # fmt: skip
def test_lists_by_the_words_around_them(text: str, exercise: object, counts: dict[str, int]) -> None:
    found = grade(exercise, read(text, "a.csv" if text.startswith("token,") else "a.md"))  # type: ignore[arg-type]
    for symbol, count in counts.items():
        assert sum(cell.symbol == symbol for cell in found.cells if cell.given is not None) == count, symbol
    assert {verdict for _, verdict in given(found).values()} <= {"right", "follows"}
    assert found.accounting.graded == sum(counts.values())


PADDED = library.get("padding")
FOUR = library.get("four-tokens")
GRID = "Query \\ Key;1;2;3;4;Zeilensumme\n1;1;1;1;1;4\n2;1;2,7183;7,3891;1;12,1073\n3;1;20,0855;7,3891;2,7183;31,1929\n"


@pytest.mark.parametrize(
    ("text", "name", "exercise", "counts"),
    [
        (f"2) exp(S);;;;;\n{GRID}4;1;7,3891;1;2,7183;12,1073\n", "a.csv", library.get("first-look"), {"E": 16, "Z": 4}),
        (
            "token\tq_1\tq_2\tscore_1\tscore_2\tscore_3\tscore_4\texp_sum\nt1\t1\t2\t1\t2\t0\t1\t13.8256\n"
            "t2\t2\t0\t2\t4\t0\t2\t70.3763\nt3\t0\t1\t0\t0\t0\t0\t4\nt4\t1\t1\t1\t2\t0\t1\t13.8256\n",
            "a.tsv", FOUR, {"Q": 8, "S": 16, "Z": 4},
        ),
        (
            "Sheet 1 - K (= X * WK)\n\td1\td2\ntok1\t2\t1\ntok2\t0\t2\ntok3\t1\t2\ntok4\t0\t0\n\n"
            "Sheet 2 - Q * K^T\n\tkey 1\tkey 2\tkey 3\tkey 4\nquery 1\t4\t0\t2\t0\nquery 2\t2\t4\t4\t0\n"
            "query 3\t3\t2\t3\t0\nquery 4\t0\t0\t0\t0\n",
            "a.txt", PADDED, {"K": 8, "QKt": 16},
        ),
        (
            "| token | Q = X W_Q | K = X W_K |\n|---|---|---|\n| tok1 | (2, 0) | (2, 1) |\n| tok2 | (0, 2) | (0, 2) |\n"
            "| tok3 | (1, 1) | (1, 2) |\n| PAD | (0, 0) | (0, 0) |\n",
            "a.md", PADDED, {"Q": 8, "K": 8},
        ),
        (
            "## Attention weights\n\n| | tok1 | tok2 | tok3 | PAD |\n|---|---|---|---|---|\n"
            "| **tok1** | 0.7679 | 0.0454 | 0.1867 | 0 |\n| **tok2** | 0.1084 | 0.4458 | 0.4458 | 0 |\n"
            "| **tok3** | 0.4011 | 0.1978 | 0.4011 | 0 |\n| **PAD** | 0.3333 | 0.3333 | 0.3333 | 0 |\n",
            "a.md", PADDED, {"A": 16},
        ),
        ("Q = K = V = [[1, 1], [1.8415, 0.5403], [1.9093, -0.4161]]", "a.md", library.get("positions"),
         {"Q": 6, "K": 6, "V": 6}),
        ("Weighted sum of the values, H = A·V:\n\nh(x1) = (0, 0.6622)\n\nh(x3) = (0, 1)\n", "a.md", FOUR, {"H": 4}),
    ],
)  # fmt: skip
def test_tables_as_they_are_pasted(text: str, name: str, exercise: object, counts: dict[str, int]) -> None:
    found = grade(exercise, read(text, name))  # type: ignore[arg-type]
    for symbol, count in counts.items():
        assert sum(cell.symbol == symbol for cell in found.cells if cell.given is not None) == count, symbol
    assert {verdict for _, verdict in given(found).values()} == {"right"}
    assert {cell.symbol for cell in found.cells if cell.given is not None} == set(counts)


def test_scores_before_the_mask_are_right_and_the_weights_without_it_are_wrong() -> None:
    text = "Scaled scores\nToken 1: [0.7071 1.4142]\nToken 2: [1.4142 1.4142]\n\nWeights\nToken 1: [0.3302 0.6698]\n"
    found = graded(f"{text}Token 2: [0.5 0.5]", CAUSAL)
    verdicts = {(cell.symbol, cell.row, cell.verdict) for cell in found.cells if cell.given is not None}
    assert verdicts == {("Su", 1, "right"), ("S", 2, "right"), ("A", 1, "wrong"), ("A", 2, "right")}
    assert [mistake.name for mistake in found.mistakes] == ["mask forgotten"]


def test_the_patches_of_a_document_are_those_of_their_numbers() -> None:
    found = graded("Patch 1 : (1, 0, 0, 1)\n\nPatch 2 : (0, 1, 1, 0)\n\nPatch 3 : (2, 0, 0, 0)", library.get("patches"))
    assert {cell.row for cell in found.cells if cell.symbol == "P" and cell.verdict == "wrong"} == {2, 3}


@pytest.mark.parametrize("header", ["matrix,row,column,value", "symbol,i,j,value"])
def test_a_table_of_cells(header: str) -> None:
    found = grade(ONE_HEAD, read(f"{header}\nQ,1,1,2\nQ,1,2,0\nK,3,2,2\n", "a.csv"))
    assert {cell.symbol: cell.verdict for cell in found.cells if cell.given is not None} == {"Q": "right", "K": "right"}


def test_decimal_commas_in_columns() -> None:
    text = "S =\n\n   1,4    2,8    4,2\n   2,1    3,5    5,7\n   3,5    6,4    9,9\n\nA[1,1] = 0,045\n"
    assert "decimal commas" in read(text).notes[0].assumption
