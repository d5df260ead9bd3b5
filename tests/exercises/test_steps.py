"""The equations of steps."""

from __future__ import annotations

import pytest

from glassformer.exercises import library
from glassformer.exercises.expression import Name
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact
from glassformer.exercises.printers.text import text
from glassformer.exercises.solution import solve
from glassformer.exercises.steps import decimal_array, name


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("Q", "Q"),
        ("Q2", "Q2"),
        ("WQ", "WQ"),
        ("WO", "WO"),
        ("bK1", "bK1"),
        ("QKt", "Q·Kᵀ"),
        ("QKt2", "Q2·K2ᵀ"),
        ("KtQ", "Kᵀ·Q"),
        ("Su", "Ŝ"),
        ("K^T", "Kᵀ"),
        ("mu", "μ"),
        ("varF", "σF²"),
        ("F1", "F1"),
    ],
)
def test_names(symbol: str, shown: str) -> None:
    assert text(name(symbol)) == shown


def test_heads_are_indices() -> None:
    assert name("A3") == Name("A", (3,))
    assert name("WV2") == Name("W", ("V", 2))


def test_every_operation_of_every_exercise_has_an_equation() -> None:
    for exercise in library.names():
        for step in solve(exercise).steps:
            sides = step.equation(4)
            assert len(sides) >= 2
            assert sides[0][0] == ""
            assert {relation for relation, _ in sides[1:]} <= {"=", "≈"}


def test_an_equation_says_nothing_twice() -> None:
    """Whole numbers need no decimals; weights do."""
    solution = solve("four-tokens")
    assert [relation for relation, _ in solution.step("Q").equation(4)] == ["", "=", "=", "="]
    assert [relation for relation, _ in solution.step("A").equation(4)] == ["", "=", "=", "≈"]


def test_long_forms_are_left_to_decimals() -> None:
    sides = solve("block").step("NF").equation(4)
    assert [relation for relation, _ in sides] == ["", "=", "≈"]


def test_counts_are_shown_with_their_letters() -> None:
    cost = solve("cost")
    assert cost.step("total").formula == "4N·D² + 2N²·D"
    assert text(solve("patch-count").step("nh").equation()[1][1]) == "height/size"


@pytest.mark.parametrize(
    ("power", "shown"),
    [(17, "2.4155·10⁷"), (40, "2.3539·10¹⁷"), (65, "1.6949·10²⁸"), (700, "1.0142·10³⁰⁴"), (5000, "2.9676·10²¹⁷¹")],
)
def test_large_numbers_have_their_power_of_ten(power: int, shown: str) -> None:
    assert text(decimal_array(Matrix.of([[Exact(power).exp()]]), 4)) == shown
