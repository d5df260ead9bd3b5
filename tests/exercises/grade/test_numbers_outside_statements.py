"""Numbers that no statement accounts for are placed by value, order and words, and never guessed."""

from __future__ import annotations

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.grade.cells import table
from glassformer.exercises.grade.evidence import TextNumber, Words, contradicting
from glassformer.exercises.reader import parse_formula, read

EXERCISE = load_exercise(
    "labels: [we, like, tea]\nX: [[1, 0], [1, 1], [2, 1]]\n"
    "heads: [{WQ: [[2, 0], [0, 1]], WK: [[1, 1], [1, 0]], WV: [[1, 3], [2, 0]]}]\n"
)
HEADS = load_exercise(
    "X: [[1, 0], [0, 1]]\nheads:\n"
    "  - {WQ: [[1, 0], [0, 1]], WK: [[1, 1], [0, 1]], WV: [[1, 0], [2, 1]]}\n"
    "  - {WQ: [[3, 0], [0, 2]], WK: [[0, 1], [1, 0]], WV: [[0, 5], [1, 0]]}\nWO: [[1], [0], [0], [1]]\n"
)

WEIGHTS = (
    r"$$\begin{bmatrix} 0.1636 & 0.1636 & 0.6728 \\ 0.2840 & 0.1400 & 0.5760 \\ 0.0279 & 0.0138 & 0.9583"
    r" \end{bmatrix}$$"
)


def graded(text: str, name: str = "a.txt", exercise: object = EXERCISE) -> Grade:
    return grade(exercise, read(f"{text}\n", name))  # type: ignore[arg-type]


def written(found: Grade, symbol: str) -> int:
    return sum(cell.symbol == symbol and cell.given is not None for cell in found.cells)


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("rows.txt", "scores / sqrt(2)\n    we | 1.414 | 2.828 | 4.243\n  like | 2.121 | 3.536 | 5.657", {"S": 6}),
        ("slashes.txt", "Q: 2 0 / 2 1 / 4 1\n"
         "attn: .0454 .1867 .7679 / .0254 .1043 .8703 / .0017 .0283 .9701", {"Q": 6}),
        ("calls.txt", "q(we) = (2, 0)   q(tea) = (4, 1)\na(we,we) = 0.045   a(we,like) = 0.187", {"Q": 4, "A": 2}),
        ("angle.txt", "k⟨1⟩ = [1, 1]\nk⟨2⟩ = [2, 1]\nk⟨3⟩ = [3, 2]", {"K": 6}),
        (
            "tokens.txt",
            "Token 1 (we)\n   q     2  0\n   v     1  3\nToken 2 (like)\n   q     2  1\n   v     3  3\n"
            "Answer:\n   we -> (3.68, 5.30)",
            {"Q": 4, "V": 4},
        ),
        (
            "query.txt",
            "--- query we ---\nwe     q.k = 2   scaled = 1.414   weight = 0.045\nlike   q.k = 4   scaled = 2.828   "
            "weight = 0.187\ntea    q.k = 6   scaled = 4.243   weight = 0.768",
            {"QKt": 3, "S": 3, "A": 3},
        ),
        ("long.csv", "step,token,v1,v2\nquery,we,2,0\n"
         "query,like,2,1\nquery,tea,4,1\nkey,we,1,1\nkey,like,2,1\nkey,tea,3,2",
         {"Q": 6, "K": 6}),
        ("wide.csv", "token,q_1,q_2,k_1,k_2,score_we,score_like,score_tea\nwe,2,0,1,1,1.414,2.828,4.243\n"
         "like,2,1,2,1,2.121,3.536,5.657", {"Q": 4, "K": 4, "S": 6}),
        ("labels.csv", "K\nkey 1,1,1\nkey 2,2,1\nkey 3,3,2\n\nA\nquery 1,0.045,0.187,0.768", {"K": 6}),
        ("turned.txt", "K (transpose):\n   1  2  3\n   1  1  2", {"K": 6}),
        ("rows.txt", "query matrix = [ 2 0 ]\n[ 2 1 ]\n[ 4 1 ]", {"Q": 6}),
        ("lists.html", "<dl><dt>value vectors</dt><dd>[1, 3]<br>[3, 3]<br>[4, 6]</dd></dl>", {"V": 6}),
        ("r.txt", "> X <- matrix(c(1,0, 1,1, 2,1), ncol = 2, byrow = TRUE)\n"
         "> (Q <- X %*% WQ)\n     [,1] [,2]\n[1,]    2    0\n"
         "[2,]    2    1\n[3,]    4    1", {"Q": 6}),
        ("sum.md", "Weights\n\n| | we | like | tea | sum |\n|---|---|---|---|---|\n| we | 0.05 | 0.19 | 0.77 | 1 |\n"
         "| like | 0.03 | 0.10 | 0.87 | 1 |\n| tea | 0.00 | 0.03 | 0.97 | 1 |", {"A": 9}),
        ("cells.md", "| | we | like | tea |\n|---|---|---|---|\n"
         "| we | 2·1 + 0·1 = 2 | 2·2 + 0·1 = 4 | 2·3 + 0·2 = 6 |\n"
         "| like | 2·1 + 1·1 = 3 | 2·2 + 1·1 = 5 | 2·3 + 1·2 = 8 |\n"
         "| tea | 4·1 + 1·1 = 5 | 4·2 + 1·1 = 9 | 4·3 + 1·2 = 14 |", {"QKt": 9}),
        ("semicolons.txt", "- value vectors: 1, 3 ; 3, 3 ; 4, 6", {"V": 6}),
        ("words.txt", "The keys of the first, second and third token are (1, 1), (2, 1) and (3, 2).", {"K": 6}),
    ],
)  # fmt: skip
def test_every_number_is_found_and_right(name: str, text: str, counts: dict[str, int]) -> None:
    found = graded(text, name)
    assert {symbol: written(found, symbol) for symbol in counts} == counts
    assert {cell.verdict for cell in found.cells if cell.given is not None} <= {"right", "follows"}
    assert not found.mistakes


def test_one_wrong_number_in_an_unnamed_form_is_wrong_in_its_cell() -> None:
    found = graded(
        "weights\n  we | 0.045 | 0.287 | 0.768\n"
        "  like | 0.025 | 0.104 | 0.870\n  tea | 0.002 | 0.028 | 0.970"
    )
    assert [(c.symbol, c.row, c.column) for c in found.cells if c.verdict == "wrong"] == [("A", 1, 2)]


def test_heads_are_kept_apart() -> None:
    found = graded("Head 1\n- value vectors: 1, 0 ; 2, 1\nHead 2\n- value vectors: 0, 5 ; 1, 0", exercise=HEADS)
    assert written(found, "V1") == written(found, "V2") == 4
    assert {c.verdict for c in found.cells if c.given} == {"right"}


def test_a_matrix_with_wrong_numbers_is_recognised_by_what_follows_from_it() -> None:
    """Softmax over the rows, where the exercise has tokens as columns, without a single name."""
    text = (
        f"{WEIGHTS}\n\n"
        r"$$\begin{bmatrix} 0.5314 & 0.3449 & 4.1237 \\ -0.0925 & 0.0373 & 1.0552 \end{bmatrix}$$"
    )
    found = graded(text, "a.md", library.get("columns"))
    assert [mistake.name for mistake in found.mistakes] == ["softargmax over the wrong axis"]
    assert {c.verdict for c in found.cells if c.symbol == "H"} == {"follows"}


def test_a_square_matrix_of_weights_is_not_read_as_its_transpose() -> None:
    """Only the numbers on the diagonal are those of the transpose; the others are wrong, and the mistake is named."""
    found = graded(WEIGHTS, "a.md", library.get("columns"))
    assert {(c.row, c.column) for c in found.cells if c.symbol == "A" and c.verdict == "right"} == {
        (1, 1), (2, 2), (3, 3)
    }  # fmt: skip
    assert [mistake.name for mistake in found.mistakes] == ["softargmax over the wrong axis"]


def test_positions_counted_from_one() -> None:
    text = "PE = [[0.8415, 0.5403], [0.9093, -0.4161], [0.1411, -0.9900]]"
    assert [m.name for m in graded(text, exercise=library.get("positions")).mistakes] == ["positions counted from 1"]


@pytest.mark.parametrize(
    "text",
    [
        "Row sums of my weights: 1 1 1",
        "In general a softmax gives numbers such as 0.1 0.2 0.7, which sum to 1.",
        "for k in range(3): x = np.arange(1, 4)",
        "The numbers 7 9 3 have no meaning here.",
    ],
)
def test_other_numbers_are_not_graded(text: str) -> None:
    found = graded(f"q_1 = (2, 0)\n\n{text}")
    assert [c.symbol for c in found.cells if c.given is not None] == ["Q", "Q"]


TWO_QUERIES = load_exercise("Q: [[1, 1], [0, 2]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[2, 1], [0, 4], [1, 3]]\n")


def placed(text: str, exercise: object = TWO_QUERIES) -> dict[tuple[str, int, int], tuple[str, str]]:
    found = graded(text, exercise=exercise).cells
    return {(c.symbol, c.row, c.column): (c.given, c.verdict) for c in found if c.given is not None}


def test_an_r_matrix_with_named_rows_and_columns() -> None:
    session = (
        "> A <- f(S)\n> round(A, 4)\n        we   like    tea\nwe   0.0454 0.1867 0.7679\n"
        "like 0.9999 0.1043 0.8703\ntea  0.0017 0.0283 0.9701\n"
    )
    found = placed(session, EXERCISE)
    assert len(found) == 9
    assert {place for place, (_, verdict) in found.items() if verdict == "wrong"} == {("A", 2, 1)}


def test_an_r_matrix_with_names_is_read_where_it_is_defined() -> None:
    code = "> Q <- matrix(c(1,0, 1,2), nrow=2, dimnames=list(c('a','b'), NULL))\n> K <- matrix(c(1,0,1, 0,1,1), 3)\n"
    assert graded(f"{code}S = [[0.7071, 0.7071, 1.4142], [0, 1.4142, 1.4142]]", exercise=TWO_QUERIES).unread == ()


def test_sentences_of_one_line_are_read_one_by_one() -> None:
    text = (
        "For query 1 the scores are 0.707 (key 1), 0.707 (key 2) and 1.414 (key 3). After softmax, the weights of "
        "query 1 are 0.248 for key 1, 0.248 for key 2 and 0.503 for key 3. The output is o1 = (0.999, 2.749)."
    )
    found = placed(text)
    assert [found["S", 1, k][0] for k in (1, 2, 3)] == ["0.707", "0.707", "1.414"]
    assert [found["A", 1, k][0] for k in (1, 2, 3)] == ["0.248", "0.248", "0.503"]
    assert found["O", 1, 2] == ("2.749", "follows")


def test_a_weight_after_the_word_sum_is_no_sum() -> None:
    found = placed("Dividing by the sum gives a11 = 0.248 and a12 = 0.248.\n")
    assert found == {("A", 1, 1): ("0.248", "right"), ("A", 1, 2): ("0.248", "right")}


def test_notes_with_arrows() -> None:
    text = "q=(1,0)\nk: (1,0) (0,1) (1,1)\nscores s = 1, 0, 1   <- with the beta\nexp -> 2.718, 1, 2.718\nsum 6.437\n"
    found = placed(f"attention\n{text}weights a = 0.422, 0.155, 0.422", library.get("beta"))
    assert [found["S", 1, k] for k in (1, 2, 3)] == [("1", "wrong"), ("0", "right"), ("1", "wrong")]
    assert {found[place][1] for place in found if place[0] in "EZA"} == {"follows", "right"}


def test_a_result_is_claimed_once() -> None:
    """The 0 of a product that is graded and checked as arithmetic does not take the place of 0.000 in a table."""
    products = "".join(f"q2 · k{k} = {line}\n" for k, line in ((1, "0·1 + 2·0 = 0"), (2, "0·0 + 2·1 = 2")))
    found = placed(f"{products}Scaled scores S\ntoken 1 0.707 0.707 1.414\ntoken 2 0.000 1.414 1.414\n")
    assert found["S", 2, 1] == ("0.000", "right")


def test_different_numbers_for_one_cell_are_contradicting() -> None:
    def number(text: str, column: int) -> TextNumber:
        written = table(parse_formula(text, 1).drafts[0].terms[0])
        assert written is not None
        entry = next(entry for _, _, entry in written.cells())
        return TextNumber(1, 0, 1, entry, None, Words(), Words(), None, 0, 1, False, False, found=("A", 0, column))

    first, second, other, finer = number("0.27", 0), number("0.73", 0), number("0.73", 1), number("0.731", 1)
    assert contradicting([first, second, other, finer]) == [first, second]
