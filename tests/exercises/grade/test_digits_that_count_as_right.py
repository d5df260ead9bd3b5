"""Which digits are right, follow, are rounded wrongly or are wrong: the definition of docs/check.md, case by case."""

from __future__ import annotations

from decimal import Decimal, getcontext
from itertools import product

import pytest

from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.grade.verdict import exact_values
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import read

EXERCISE = from_data(
    {
        "X": [[1, 0, 2], [0, 1, 1], [2, 1, 0]],
        "heads": [{"WQ": [[1, 0], [0, 1], [1, 0]], "WK": [[0, 1], [1, 0], [1, 1]], "WV": [[1, 2], [0, 1], [1, 0]]}],
    }
)


def graded(text: str, exercise: Exercise = EXERCISE, name: str = "a.md") -> Grade:
    return grade(exercise, read(text, name))


def verdicts(text: str, exercise: Exercise = EXERCISE, name: str = "a.md") -> dict[tuple[str, int, int], str]:
    cells = graded(text, exercise, name).cells
    return {(c.symbol, c.row, c.column): c.verdict for c in cells if c.given is not None}


@pytest.mark.parametrize(
    ("weight", "verdict"),
    [
        ("0.6728", "right"), ("0.673", "right"), ("0.67", "right"), ("0.672", "right"), ("0.6741", "follows"),
        ("0.674", "follows"), ("0.6740", "rounded"), ("0.6742", "rounded"), ("0.6750", "wrong"), ("0.68", "rounded"),
        ("0.6", "wrong"), ("0.7", "right"), ("1", "wrong"),
    ],
)  # fmt: skip
def test_a_weight_of_scores_written_to_two_decimals(weight: str, verdict: str) -> None:
    found = verdicts(f"$$s_2 = (3.54, 2.12, 2.12)$$\n\n$$a_{{21}} = {weight}$$")
    assert found["A", 2, 1] == verdict


BUMPED = (
    EXERCISE,
    from_data(
        {
            "X": [[1, 0], [1, 1], [2, 1]],
            "heads": [{"WQ": [[2, 0], [0, 1]], "WK": [[1, 1], [1, 0]], "WV": [[1, 3], [2, 0]]}],
        }
    ),
    from_data({"Q": [[1, 2]], "K": [[1, 0], [0, 1], [1, 1]], "V": [[1, 2], [3, 4], [0, 1]]}),
)


@pytest.mark.parametrize(("digits", "accepted"), [(4, 13), (3, 14), (2, 16)])
def test_a_bumped_last_digit_passes_only_where_the_definition_says_so(digits: int, accepted: int) -> None:
    """Scores to so many digits, one of 21 weights of four digits off by one unit: right if it is the exact value
    truncated, follows if it is the weight of the written scores, rounded. The oracle is decimal, with 60 digits."""
    getcontext().prec = 60
    passed = 0
    for exercise in BUMPED:
        rows = [[Decimal(str(x.mid().str(50, radius=False))) for x in row] for row in exact_values(plan(exercise))["S"]]
        S = [[x.quantize(Decimal(10) ** -digits) for x in row] for row in rows]
        for i, row in enumerate(rows):
            for j, bump in product(range(len(row)), (-1, 1)):
                exact, follow = _softmax(row)[j], _softmax(S[i])[j]
                weight = exact.quantize(Decimal("0.0001")) + Decimal(bump) / 10000
                scores = str(S).replace("Decimal('", "").replace("')", "")
                found = verdicts(f"S: {scores}\nA: {_only(i, j, weight, rows)}", exercise, name="a.yaml")
                right = 0 <= exact - weight < Decimal("0.0001")
                follows = abs(follow - weight) <= Decimal("0.00005")
                assert found["A", i + 1, j + 1] == ("right" if right else "follows" if follows else "rounded")
                passed += right or follows
    assert passed == accepted


def _softmax(row: list[Decimal]) -> list[Decimal]:
    return [x.exp() / sum(y.exp() for y in row) for x in row]


def _only(i: int, j: int, weight: Decimal, rows: list[list[Decimal]]) -> str:
    cells = [[f"{weight}" if (a, b) == (i, j) else "null" for b in range(len(row))] for a, row in enumerate(rows)]
    return "[" + ", ".join(f"[{', '.join(row)}]" for row in cells) + "]"


@pytest.mark.parametrize(
    "sum_", [r"0.67\cdot(3,2) + 0.16\cdot(1,1) + 0.16\cdot(2,5)", "0.67 v_1 + 0.16 v_2 + 0.16 v_3"]
)
@pytest.mark.parametrize("A", ["", "$$a_2 = (0.67, 0.16, 0.16)$$\n\n"])
def test_arithmetic_on_the_numbers_as_written_follows(sum_: str, A: str) -> None:
    found = verdicts(f"{A}$$z_2 = {sum_} = (2.49, 2.30)$$")
    assert {v for (s, _, _), v in found.items() if s == "A"} == {"right"}
    assert (found["H", 2, 1], found["H", 2, 2]) == ("follows", "follows")


def test_a_sum_with_fractions_and_a_zero() -> None:
    exercise = from_data(
        {"Q": [[1]], "K": [[1], ["1/2"], [-9]], "V": [["-3/2"], [3], [-3]], "scale": "none"}
    )  # weights 0.6225, 0.3775, 0.0000
    found = verdicts(r"$$h_1 = (0.62\cdot-3/2)+(0.38\cdot3)+(0\cdot-3) = 0.21$$", exercise)
    assert found["H", 1, 1] == "follows"


def test_wrong_weights_in_a_sum_are_wrong_and_their_result_follows() -> None:
    found = verdicts("$$z_2 = 0.9 v_1 + 0.9 v_2 + 0.9 v_3 = (5.4, 7.2)$$")
    assert {v for (s, _, _), v in found.items() if s == "A"} == {"wrong"}
    assert found["H", 2, 1] == "follows"


@pytest.mark.parametrize("A", ["[[1,1],[1,1]]", "[[0,1],[1,0]]", "[[1,0],[1,0]]"])
@pytest.mark.parametrize("relation", ["=", r"\approx"])
def test_whole_numbers_are_no_weights(A: str, relation: str) -> None:
    exercise = from_data({"Q": [[1, 1], [1, 1]], "K": [[1, 0], [0, 1]], "V": [[1, 2], [3, 4]]})
    assert set(verdicts(f"$$A {relation} {A}$$", exercise).values()) == {"wrong"}


def test_rows_that_do_not_sum_to_1_are_named() -> None:
    (mistake,) = graded("$$A = [[1,1,1],[1,1,1],[1,1,1]]$$").mistakes
    assert mistake.name == "weights that do not sum to 1"
    assert "token 1 sum to 3" in mistake.why


def test_a_row_that_sums_to_a_little_more_than_1_is_remarked_upon() -> None:
    notes = graded("$$s_2 = (3.54, 2.12, 2.12)$$\n\n$$a_2 = (0.6741, 0.1635, 0.1635)$$").notes
    assert any("sum to 1.0011" in note.assumption for note in notes)
    assert not any("sum to" in note.assumption for note in graded("$$a_2 = (0.673, 0.164, 0.164)$$").notes)


def test_numbers_that_are_cut_off_are_right_and_it_is_noted() -> None:
    found = graded("$$A = [[0.471, 0.471, 0.056], [0.672, 0.163, 0.163], [0.733, 0.178, 0.087]]$$")
    assert {c.verdict for c in found.cells if c.symbol == "A"} == {"right"}
    assert any("truncated" in note.assumption for note in found.notes)


def test_what_follows_from_the_unrounded_values_of_a_mistake_follows() -> None:
    """Scores that are not scaled, and their weights from the unrounded scores of another calculator step."""
    A = "[[0.4879, 0.4879, 0.0243], [0.7870, 0.1065, 0.1065], [0.8438, 0.1142, 0.0420]]"
    found = graded(f"$$S = [[6, 6, 3], [5, 3, 3], [7, 5, 4]]$$\n\n$$A = {A}$$")
    assert {c.verdict for c in found.cells if c.symbol == "A"} == {"follows"}
    assert [mistake.name for mistake in found.mistakes] == ["no √d_k"]


def test_a_given_matrix_that_is_copied_wrongly_is_said_first() -> None:
    found = graded("$$X = [[1,0,2],[0,1,1],[2,1,1]]$$\n\n$$Q = [[3,0],[1,1],[3,1]]$$")
    assert {c.verdict for c in found.cells if c.symbol == "Q"} == {"right", "follows"}
    assert found.mistakes[0].name == "a given number copied wrongly"
    assert "X[3,3] is 1" in found.mistakes[0].why
    X = "$$X = [[1,0,2],[0,1,1],[2,1,1]]$$"
    twice = graded(f"{X}\n\nAgain:\n\n{X}\n\n$$Q = [[3,0],[1,1],[3,1]]$$")
    assert [mistake.name for mistake in twice.mistakes] == ["a given number copied wrongly"]


NOTATION = {
    "several vectors on one line": ("q1 = [3, 0]  q2 = [1, 1]\n", {"Q": 4}),
    "energies": (
        "We use energies $e_{ij} = q_i^T k_j/\\sqrt{2}$.\n\n$$e_{11} = 4.243, e_{12} = 4.243, e_{13} = 2.121$$",
        {"S": 3},
    ),
    "softmax with an arrow": ("s1 = (4.24, 4.24, 2.12)\nsoftmax -> [0.47, 0.47, 0.06]\n", {"S": 3, "A": 3}),
    "z": ("z1 = 0.4717 v1 + 0.4717 v2 + 0.0565 v3 = [2.00, 1.70]\n", {"A": 3, "H": 2}),
    "context": ("context c_1 = (2.0000, 1.6979)\n", {"H": 2}),
    "output tokens": ("Output tokens = [[2.0000, 1.6979], [2.5093, 2.3272], [2.5553, 2.0855]]\n", {"H": 6}),
    "a counter": ("For token $i=1$:\n\n$$c_1 = (2.0000, 1.6979)$$\n", {"H": 2}),
}


@pytest.mark.parametrize("form", NOTATION)
def test_notation(form: str) -> None:
    text, counts = NOTATION[form]
    found = graded(text, name="a.txt")
    here = [c for c in found.cells if c.given is not None]
    assert {s: sum(c.symbol == s for c in here) for s in dict.fromkeys(c.symbol for c in here)} == counts
    assert {c.verdict for c in here} <= {"right", "follows"}
    assert found.unread == ()
