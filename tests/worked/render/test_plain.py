from __future__ import annotations

import pytest

from glassformer.worked import library
from glassformer.worked.arithmetic import EXACT
from glassformer.worked.display import tree
from glassformer.worked.expression import evaluate, parse
from glassformer.worked.render.formula import Decimal, Grid, Letter, Link, Row, chain
from glassformer.worked.render.plain import beside, block, number
from glassformer.worked.render.plain import chain as lines
from glassformer.worked.solve import solve


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("-3/4", "−3/4"),
        ("26*sqrt(3)", "26√3"),
        ("exp(2)/(exp(2)+2*e+1)", "e²/(e² + 2e + 1)"),
        ("exp(-2)", "e⁻²"),
        ("exp(sqrt(2))", "e^(√2)"),
        ("10^(1/3)", "³√(10)"),
        ("1-sqrt(2)", "1 − √2"),
    ],
)
def test_numbers(expression: str, shown: str) -> None:
    assert number(tree(evaluate(parse(expression), EXACT))) == shown


def test_matrices_stand_side_by_side() -> None:
    grid = Grid(((Decimal("1"), Decimal("-2.5")), (Decimal("30"), Decimal("4"))))
    assert block(grid).lines == ("⎡ 1  -2.5⎤", "⎣30     4⎦")
    assert block(Row((grid, Letter("X")))).lines == ("⎡ 1  -2.5⎤·X", "⎣30     4⎦  ")


def test_a_chain_is_broken_where_the_page_ends() -> None:
    grid = Grid(((Decimal("1") ,) * 12,) * 2)
    wide = lines([Link("", Letter("A")), Link("=", grid), Link("=", grid)], width=60)
    assert max(map(len, wide.splitlines())) <= 60
    assert len(wide.splitlines()) == 4


@pytest.mark.parametrize("name", library.names())
def test_nothing_is_wider_than_the_page(name: str) -> None:
    for step in solve(library.get(name)).steps:
        assert max(map(len, lines(chain(step, 4), 120).splitlines())) <= 120


def test_blocks_of_unequal_height_meet_in_the_middle() -> None:
    tall = block(Grid(tuple((Decimal(str(i)),) for i in range(5))))
    assert beside(block(Letter("x")), tall, " = ").lines[tall.middle].startswith("x = ")
