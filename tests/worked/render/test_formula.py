from __future__ import annotations

import pytest

from glassformer.worked import library
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact
from glassformer.worked.render import plain
from glassformer.worked.render.formula import Letter, Row, chain, decimal_grid, name, spelled
from glassformer.worked.solve import solve


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
    assert plain.block(name(symbol)).lines == (shown,)


def test_heads_are_indices() -> None:
    assert name("A3") == Letter("A", "3")
    assert name("WV2") == Letter("W", "V2")


def test_every_operation_of_every_exercise_has_a_chain() -> None:
    for exercise in library.names():
        for step in solve(library.get(exercise)).steps:
            links = chain(step, 4)
            assert len(links) >= 2
            assert links[0].relation == ""
            assert {link.relation for link in links[1:]} <= {"=", "≈"}


def test_a_chain_says_nothing_twice() -> None:
    """Whole numbers need no decimals; weights do."""
    solution = solve(library.get("four-tokens"))
    assert [link.relation for link in chain(solution.step("Q"), 4)] == ["", "=", "=", "="]
    assert [link.relation for link in chain(solution.step("A"), 4)] == ["", "=", "=", "≈"]


def test_long_forms_are_left_to_decimals() -> None:
    links = chain(solve(library.get("block")).step("NF"), 4)
    assert [link.relation for link in links] == ["", "=", "≈"]


def test_counts_are_spelled() -> None:
    assert plain.block(spelled("4ND² + 2N²D")).lines == ("4N·D² + 2N²·D",)
    assert isinstance(spelled("height/size"), Row)


@pytest.mark.parametrize(
    ("power", "shown"),
    [(17, "2.4155·10⁷"), (40, "2.3539·10¹⁷"), (65, "1.6949·10²⁸"), (700, "1.0142·10³⁰⁴"), (5000, "2.9676·10²¹⁷¹")],
)
def test_large_numbers_have_their_power_of_ten(power: int, shown: str) -> None:
    grid = decimal_grid(Matrix.of([[Exact(power).exp()]]), 4)
    assert plain.block(grid).lines == (shown,)
