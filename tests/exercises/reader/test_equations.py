"""Right, rounded, wrong: decided with exact rationals as the oracle."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from flint import ctx
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises.arithmetic import interval
from glassformer.exercises.expression import Negative, number
from glassformer.exercises.reader import ArithmeticFinding, arithmetic, read, read_file
from glassformer.exercises.reader.equations import Comparison, compare, verdict_of
from glassformer.exercises.reader.statements import formula


def compared(source: str) -> Comparison:
    left, right = formula(source).drafts[0].terms
    return compare(left.term, right.relation, right.term)


@given(st.fractions(-50, 50), st.integers(1, 6), st.integers(-3, 3))
def test_the_rule_on_exact_values(value: Fraction, places: int, off: int) -> None:
    """Correctly rounded is right, one unit off is rounded, two or more are wrong, whatever the value."""
    unit = Fraction(1, 10**places)
    scaled = round(value / unit) + off
    text = f"{abs(scaled) // 10**places}.{abs(scaled) % 10**places:0{places}d}"
    given_term = Negative(number(text)) if scaled < 0 else number(text)
    distance = abs(scaled * unit - value)
    expected = "right" if distance <= unit / 2 else "rounded" if distance <= 3 * unit / 2 else "wrong"
    with ctx.workprec(128):
        assert verdict_of(interval(value), given_term) == expected


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (r"\frac{224}{16} = 14", "right"),
        ("e^2/13.8256 = 0.5343", "rounded"),
        ("e^2/13.8256 = 0.5344", "right"),
        ("e^2/13.8256 = 0.5342", "wrong"),
        ("e^2/70.3763 = 0.1050", "right"),
        (r"0.1967 \cdot 2 + 0.5343 \cdot 0 + 0.0723 \cdot 1 + 0.1967 \cdot 1 = 0.6624", "right"),
        (r"2 \cdot 3 = 7", "wrong"),
        ("7/2 = 4", "wrong"),
        (r"7/2 \approx 4", "right"),
        (r"7/2 \approx 5", "wrong"),
        ("e^2 = 7", "rounded"),
        (r"e^2 \approx 7", "right"),
        ("e^2 = 8", "wrong"),
        ("1/3 = 0.33", "right"),
        ("2/3 = 0.66", "rounded"),
        (r"\frac{1}{3} = \frac{2}{6}", "right"),
        (r"\frac{1}{3} = \frac{2}{5}", "wrong"),
        ("e^2/7 = 7.389/7", "right"),
        ("9^{9^9} = 3", "unread"),
        (r"\begin{bmatrix} 1 & 2 \end{bmatrix} \begin{bmatrix} 3 \\ 4 \end{bmatrix} = 11", "right"),
        (r"\text{softmax}([[0, 0], [0, 1]]) = [[0.5, 0.5], [0.2689, 0.7311]]", "right"),
        (r"\text{softmax}([[0, 0], [0, 1]]) = [[0.5, 0.2689], [0.5, 0.7311]]", "right"),
        (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix} = \begin{bmatrix} 1 & 2 \end{bmatrix}", "right"),
        (r"\begin{bmatrix} 0 & -\infty \end{bmatrix} = \begin{bmatrix} 0 & -\infty \end{bmatrix}", "right"),
    ],
)
def test_verdicts(source: str, verdict: str) -> None:
    assert compared(source).verdict == verdict


def test_cells_carry_what_was_expected() -> None:
    found = compared(r"[[1, 2], [3, 4]] [[1, 0], [0, 1]] = [[1, 2], [3, 5]]")
    wrong = [cell for cell in found.cells if cell.verdict != "right"]
    assert [(cell.row, cell.column, cell.given, cell.expected) for cell in wrong] == [(2, 2, "5", "4")]


def test_strict_tells_what_only_the_rounding_of_the_operands_allows() -> None:
    (loose,) = compared(r"0.5 \cdot 3 = 1.6").cells
    (strict,) = compared(r"0.5 \cdot 3 = 1.5").cells
    assert (loose.verdict, loose.strict) == ("right", False)
    assert (strict.verdict, strict.strict) == ("right", True)


def test_a_number_beside_a_vector() -> None:
    found = compared(r"0.25 \cdot 2 + 0.1 = \begin{bmatrix} 0 \\ 0.6 \end{bmatrix}")
    assert (found.verdict, found.cells[0].row, found.cells[0].column) == ("right", 2, 1)
    assert "row 2" in found.reason
    assert compared(r"1 + 1 = \begin{bmatrix} 0 \\ 5 \end{bmatrix}").verdict == "shape"


def test_sizes() -> None:
    found = compared("[[1, 2], [3, 4]] [[1, 0, 0], [0, 1, 0]] = [[1, 2], [3, 4]]")
    assert (found.verdict, found.reason) == ("shape", "2×2 times 2×3 gives 2×3, but 2×2 is written")
    assert {cell.verdict for cell in found.cells} == {"right"}
    assert compared("[[1, 2]] [[1, 2]] = 3").verdict == "shape"


SAMPLES = Path(__file__).parent.parent / "samples"


def findings(text: str) -> list[ArithmeticFinding]:
    return arithmetic(read(text))


def verdicts(text: str) -> list[str]:
    return [found.verdict for found in findings(text)]


def test_every_neighbour_in_a_chain_is_compared() -> None:
    assert verdicts("$Q = X W = 2 + 2 = 4 = 5$") == ["right", "wrong"]
    assert verdicts("$w = 0.25$") == []
    assert verdicts("$1 + 1 < 3 = 4 - 1$") == ["right"]


def test_arrows_join_a_computation_and_its_result() -> None:
    assert verdicts(r"$2 \cdot 3 \Rightarrow 7$") == ["wrong"]
    assert verdicts(r"$2 \rightarrow 3$") == []


def test_crossed_out_parts_are_never_judged() -> None:
    assert verdicts(r"$1 + 1 = \cancel{3} = 2$") == ["right"]
    assert verdicts("~~$1 + 1 = 3$~~ and $1 = 1$") == ["right"]
    assert verdicts(r"$\cancel{1 + 1 = 3}$ and $1 = 1$") == ["right"]


def test_a_size_that_is_not_the_size() -> None:
    (found,) = findings(r"$$Q = \begin{bmatrix} 1 & 2 \end{bmatrix}_{(2 \times 1)}$$")
    assert (found.verdict, found.reason) == ("shape", "a matrix of size 1×2 is labelled 2×1")


def test_sums_announced_in_words() -> None:
    assert verdicts("Exponential: $[e, e^2, 1, e]$. If we sum them we get circa 13.8256.") == ["right"]
    assert verdicts("Exponential: $[e, e^2, 1, e]$. If we sum them we get circa 13.8266.") == ["wrong"]


def test_a_strike_lost_by_the_scan_is_suspected() -> None:
    a, b, v = "[[1, 2], [0, 1]]", "[[5, 5], [7, 7]]", "[[1, 1], [0, 2]]"
    (found,) = findings(f"$${a} {b} {v} = [[1, 5], [0, 2]]$$")
    assert found.verdict == "wrong"
    assert found.reason == "it agrees if the second of the 3 matrices is left out"


def test_four_tokens() -> None:
    found = {f.line: f for f in arithmetic(read_file(SAMPLES / "four-tokens.md"))}
    assert {line: f.verdict for line, f in found.items()} == {
        9: "right", 41: "right", 43: "rounded", 45: "rounded", 47: "right", 49: "rounded", 53: "right", 55: "right",
        57: "rounded", 59: "right", 61: "right", 69: "right",
    }  # fmt: skip
    assert [(c.given, c.expected) for c in found[45].cells] == [("0.5343", "0.5344")]
    assert [(c.row, c.column) for c in found[69].cells] == [(2, 1)]


def test_two_heads() -> None:
    found = arithmetic(read_file(SAMPLES / "two-heads.md"))
    assert [(f.line, f.verdict) for f in found] == [
        (19, "wrong"), (21, "wrong"), (23, "shape"), (29, "shape"), (35, "wrong"), (35, "wrong"), (39, "right"),
        (41, "right"), (55, "right"), (59, "right"), (63, "wrong"), (95, "wrong"),
    ]  # fmt: skip
    wrong = [(c.row, c.column, c.given, c.expected) for c in found[0].cells if c.verdict == "wrong"]
    assert wrong == [(2, 2, "0", "5")]
    assert found[2].reason == "2×6 times 6×4 gives 2×4, but 2×3 is written"
    assert found[3].reason == "2×3 times 3×2 gives 2×2, but 3×2 is written"
    assert found[4].reason == "it agrees if the second of the 3 matrices is left out"
    assert found[10].reason == "3 of 6 cells agree if the first of the 3 matrices is left out"
