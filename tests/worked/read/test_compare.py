"""Right, rounded, wrong: decided with exact rationals as the oracle."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import ctx
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.read.balls import rational
from glassformer.worked.read.chain import formula
from glassformer.worked.read.compare import Comparison, compare, verdict_of
from glassformer.worked.read.term import Negative, written


def compared(source: str) -> Comparison:
    left, right = formula(source).drafts[0].terms
    return compare(left.term, right.relation, right.term)


@given(st.fractions(-50, 50), st.integers(1, 6), st.integers(-3, 3))
def test_the_rule_on_exact_values(value: Fraction, places: int, off: int) -> None:
    """Correctly rounded is right, one unit off is rounded, two or more are wrong, whatever the value."""
    unit = Fraction(1, 10**places)
    scaled = round(value / unit) + off
    text = f"{abs(scaled) // 10**places}.{abs(scaled) % 10**places:0{places}d}"
    given_term = Negative(written(text)) if scaled < 0 else written(text)
    distance = abs(scaled * unit - value)
    expected = "right" if distance <= unit / 2 else "rounded" if distance <= 3 * unit / 2 else "wrong"
    with ctx.workprec(128):
        assert verdict_of(rational(value), given_term) == expected


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
