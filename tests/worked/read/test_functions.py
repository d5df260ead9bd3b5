"""Functions on balls against SciPy and the standard library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from glassformer.worked.read.balls import Grid, Mismatch, Unevaluated
from glassformer.worked.read.functions import apply, softmax

floats = st.floats(-20, 20, allow_nan=False)


@given(st.lists(floats, min_size=1, max_size=5))
def test_softmax_is_scipys(scores: list[float]) -> None:
    ours = [float(x.mid()) for x in softmax([arb(s) for s in scores])]
    assert ours == pytest.approx(list(special.softmax(np.array(scores))), abs=1e-12)


@given(st.lists(floats, min_size=2, max_size=4), st.data())
def test_softmax_of_intervals_holds_every_choice(scores: list[float], data: st.DataObject) -> None:
    balls = softmax([arb(s, 0.05) for s in scores])
    shifts = data.draw(st.lists(st.floats(-0.05, 0.05), min_size=len(scores), max_size=len(scores)))
    chosen = special.softmax(np.array(scores) + np.array(shifts))
    assert all(ball.lower() <= x + 1e-12 and ball.upper() >= x - 1e-12 for ball, x in zip(balls, chosen, strict=True))


def test_masked_scores() -> None:
    assert [float(x.mid()) for x in softmax([arb(1), arb.neg_inf(), arb(1)])] == [0.5, 0, 0.5]
    with pytest.raises(Unevaluated, match="all −∞"):
        softmax([arb.neg_inf(), arb.neg_inf()])


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("exp", math.exp), ("sin", math.sin), ("cos", math.cos), ("tanh", math.tanh), ("abs", abs),
     ("sigmoid", lambda x: 1 / (1 + math.exp(-x))), ("relu", lambda x: max(x, 0)),
     ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)],
)  # fmt: skip
@given(x=st.floats(-5, 5))
def test_cell_by_cell(name: str, oracle, x: float) -> None:  # type: ignore[no-untyped-def]
    value = apply(name, [Grid(((arb(x),),))], None)
    assert float(value.rows[0][0].mid()) == pytest.approx(oracle(x), abs=1e-9)


def test_gathering() -> None:
    row = Grid(((arb(1), arb(2), arb(6)),), flat=True)
    assert apply("mean", [row], None) == 3
    assert apply("max", [row], None) == 6
    assert apply("min", [arb(3), arb(2)], None) == 2
    assert float(apply("var", [row], None).mid()) == pytest.approx(float(np.var([1, 2, 6])))
    assert apply("inner", [row, row], None) == 41
    assert apply("factorial", [arb(5)], None) == 120


def test_softmax_of_a_matrix_needs_its_axis() -> None:
    matrix = Grid(((arb(0), arb(0)), (arb(1), arb(1))))
    with pytest.raises(Unevaluated, match="rows or columns"):
        apply("softmax", [matrix], None)
    assert float(apply("softmax", [matrix], "rows").rows[1][0].mid()) == 0.5
    assert float(apply("softmax", [matrix], "columns").rows[0][0].mid()) == pytest.approx(1 / (1 + math.e))


def test_what_has_no_value() -> None:
    for name, value in (("log", arb(0)), ("exp", arb(10**9)), ("factorial", arb(1) / 2), ("layernorm", arb(1))):
        with pytest.raises(Unevaluated):
            apply(name, [value], None)
    with pytest.raises(Mismatch):
        apply("inner", [Grid(((arb(1),),)), Grid(((arb(1), arb(2)),))], None)
