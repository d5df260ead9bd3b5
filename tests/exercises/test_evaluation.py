"""Values of expressions: intervals of written numbers, names looked up, matrices, functions, and bounded work."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from glassformer.exercises.arithmetic import INTERVALS, Mismatch, Unevaluated, interval, midpoint
from glassformer.exercises.evaluation import Axis, Value, add, blocks, enclose, evaluate, multiply, shape_text
from glassformer.exercises.expression import Call, Name
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.reader.statements import formula


def call(function: str, *values: Value, axis: Axis | None = None) -> Value:
    """A function of values that are looked up by name."""
    names = {f"x_{i}": value for i, value in enumerate(values)}
    arguments = tuple(Name("x", (i,)) for i in range(len(values)))
    return evaluate(Call(function, arguments), INTERVALS, names, axis=axis)


def value_of(source: str, **options: object) -> Value:
    return enclose(formula(source).drafts[0].terms[0].term, **options)  # type: ignore[arg-type]


def ends(value: arb) -> tuple[float, float]:
    return float(value.lower()), float(value.upper())


def test_a_decimal_is_its_rounding_interval() -> None:
    assert ends(value_of("0.1967")) == pytest.approx((0.19665, 0.19675), abs=1e-9)
    assert ends(value_of("0.1050")) == pytest.approx((0.10495, 0.10505), abs=1e-9)
    assert ends(value_of("10")) == (10, 10)
    assert ends(value_of("0.1967", slack=Fraction(0))) == pytest.approx((0.1967, 0.1967), abs=1e-15)
    assert ends(value_of(r"19.67\%")) == pytest.approx((0.19665, 0.19675), abs=1e-9)


def test_whole_numbers_beside_decimals_have_lost_their_zeros() -> None:
    row = value_of(r"\begin{bmatrix} 11.98 & 8 \end{bmatrix}").rows[0]
    assert ends(row[1]) == pytest.approx((7.995, 8.005), abs=1e-9)
    row = value_of(r"\begin{bmatrix} 0.5 & 8 \end{bmatrix}").rows[0]  # ½ is no sign of rounding
    assert ends(row[1]) == (8, 8)


def test_names_are_looked_up() -> None:
    values = {Name("q", (1,)): Matrix(((arb(1), arb(2)),)), Name("d", ("k",)): arb(4)}
    assert value_of(r"q_1 q_1^\top / \sqrt{d_k}", names=values.get).rows[0][0].contains(arb("2.5"))
    with pytest.raises(Unevaluated, match="q_2 is not a number"):
        value_of("q_2", names=values.get)


def test_blocks_and_transposes() -> None:
    value = value_of(r"\begin{bmatrix} [[1], [2]] & [[3, 4], [5, 6]] \end{bmatrix}^T")
    assert [[float(x) for x in row] for row in value.rows] == [[1, 2], [3, 5], [4, 6]]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("9^{9^9}", "too large"),
        ("9^{9^{9^{9}}}", "too large"),
        ("9**9**9**9", "too large"),
        ("e^{e^{e^{e^{e}}}}", "too large"),
        (r"\exp(10^9)", "too large"),
        (r"1/0", "division by zero"),
        (r"\frac{1}{1 - 1}", "division by zero"),
        (r"\sqrt{-1}", "negative"),
        (r"\infty - \infty", "has no value"),
        (r"\sum_j x_j", "the range of"),
        (r"\begin{bmatrix} 1 & \\ 2 & 3 \end{bmatrix}", "empty"),
        ("100!!", "factorial"),
    ],
)
@pytest.mark.timeout(60)
def test_what_has_no_value_says_why_at_once(source: str, reason: str) -> None:
    with pytest.raises(Unevaluated, match=reason):
        value_of(source)


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(Mismatch, match="width 2 meets height 3"):
        value_of(r"\begin{bmatrix} 1 & 2 \end{bmatrix} \begin{bmatrix} 1 \\ 2 \\ 3 \end{bmatrix}")
    with pytest.raises(Mismatch, match="differ in length"):
        value_of(r"\begin{bmatrix} 1 & 2 \\ 3 \end{bmatrix}")


floats = st.floats(-20, 20, allow_nan=False)


@given(st.lists(floats, min_size=1, max_size=5))
def test_softargmax_is_scipys(scores: list[float]) -> None:
    ours = [float(x.mid()) for x in INTERVALS.softargmax([arb(s) for s in scores])]
    assert ours == pytest.approx(list(special.softmax(np.array(scores))), abs=1e-12)


@given(st.lists(floats, min_size=2, max_size=4), st.data())
def test_softargmax_of_intervals_holds_every_choice(scores: list[float], data: st.DataObject) -> None:
    weights = INTERVALS.softargmax([arb(s, 0.05) for s in scores])
    shifts = data.draw(st.lists(st.floats(-0.05, 0.05), min_size=len(scores), max_size=len(scores)))
    chosen = special.softmax(np.array(scores) + np.array(shifts))
    for weight, x in zip(weights, chosen, strict=True):
        assert weight.lower() - 1e-12 <= x <= weight.upper() + 1e-12


def test_masked_scores() -> None:
    assert [float(x.mid()) for x in INTERVALS.softargmax([arb(1), arb.neg_inf(), arb(1)])] == [0.5, 0, 0.5]
    with pytest.raises(Unevaluated, match="all −∞"):
        INTERVALS.softargmax([arb.neg_inf(), arb.neg_inf()])


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("exp", math.exp), ("sin", math.sin), ("cos", math.cos), ("tanh", math.tanh), ("abs", abs),
     ("sigmoid", lambda x: 1 / (1 + math.exp(-x))), ("relu", lambda x: max(x, 0)),
     ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)],
)  # fmt: skip
@given(x=st.floats(-5, 5))
def test_cell_by_cell(name: str, oracle, x: float) -> None:  # type: ignore[no-untyped-def]
    value = call(name, Matrix(((arb(x),),)))
    assert float(value.rows[0][0].mid()) == pytest.approx(oracle(x), abs=1e-9)


def test_gathering() -> None:
    row = Matrix(((arb(1), arb(2), arb(6)),), flat=True)
    assert call("mean", row) == 3
    assert call("max", row) == 6
    assert call("min", arb(3), arb(2)) == 2
    assert float(call("var", row).mid()) == pytest.approx(float(np.var([1, 2, 6])))
    assert call("inner", row, row) == 41
    assert call("factorial", arb(5)) == 120


def test_softmax_of_a_matrix_needs_its_axis() -> None:
    matrix = Matrix(((arb(0), arb(0)), (arb(1), arb(1))))
    with pytest.raises(Unevaluated, match="rows or columns"):
        call("softmax", matrix)
    assert float(call("softmax", matrix, axis="rows").rows[1][0].mid()) == 0.5
    assert float(call("softmax", matrix, axis="columns").rows[0][0].mid()) == pytest.approx(1 / (1 + math.e))


def test_what_has_no_value() -> None:
    for name, value in (("log", arb(0)), ("exp", arb(10**9)), ("factorial", arb(1) / 2), ("layernorm", arb(1))):
        with pytest.raises(Unevaluated):
            call(name, value)
    with pytest.raises(Mismatch):
        call("inner", Matrix(((arb(1),),)), Matrix(((arb(1), arb(2)),)))


def grid(rows: list[list[int]], *, flat: bool = False) -> Matrix[arb]:
    return Matrix(tuple(tuple(arb(x) for x in row) for row in rows), flat)


def numbers(value: Matrix[arb]) -> list[list[int]]:
    return [[int(x.unique_fmpz()) for x in row] for row in value.rows]


@given(st.fractions(-100, 100), st.integers(0, 6))
def test_an_interval_holds_what_rounds_to_it(value: Fraction, places: int) -> None:
    unit = Fraction(1, 10**places)
    rounded = round(value / unit) * unit
    with ctx.workprec(128):
        assert interval(rounded, unit / 2).contains(interval(value)) or abs(value - rounded) == unit / 2
        outside = rounded + unit * Fraction(51, 100)
        assert not interval(rounded, unit / 2).overlaps(interval(outside))


sizes = st.integers(1, 4)


@given(sizes, sizes, sizes, st.randoms(use_true_random=False))
def test_products_are_numpys(m: int, k: int, n: int, random) -> None:  # type: ignore[no-untyped-def]
    a = [[random.randint(-9, 9) for _ in range(k)] for _ in range(m)]
    b = [[random.randint(-9, 9) for _ in range(n)] for _ in range(k)]
    product = multiply(grid(a), grid(b))
    assert numbers(product) == (np.array(a) @ np.array(b)).tolist()


def test_lists_stand_as_they_fit() -> None:
    row = grid([[1, 2]], flat=True)
    assert multiply(row, grid([[3, 4]], flat=True)) == 11
    assert numbers(multiply(row, grid([[1, 0, 1], [0, 1, 1]]))) == [[1, 2, 3]]
    assert numbers(multiply(grid([[1, 0], [0, 2]]), row)) == [[1], [4]]
    assert numbers(add(row, grid([[3], [4]]))) == [[4], [6]]


def test_what_does_not_fit_says_so() -> None:
    with pytest.raises(Mismatch, match="2×3 matrix cannot be multiplied by a 2×2 matrix: width 3 meets height 2"):
        multiply(grid([[1, 2, 3], [1, 2, 3]]), grid([[1, 2], [3, 4]]))
    with pytest.raises(Mismatch, match="cannot be added"):
        add(grid([[1, 2]]), grid([[1, 2, 3]]))
    with pytest.raises(Mismatch, match="cannot be added"):
        add(grid([[1, 2], [3, 4]]), grid([[1, 2, 3], [4, 5, 6]]))
    with pytest.raises(Mismatch, match="division by a matrix"):
        value_of("1 / [[1, 2]]")
    with pytest.raises(Mismatch, match="2 and 1 rows"):
        blocks([[grid([[1], [2]]), grid([[1]])]])


def test_a_bias_is_added_to_every_row_or_column() -> None:
    assert numbers(add(grid([[1, 2], [3, 4]]), grid([[10, 20]]))) == [[11, 22], [13, 24]]
    assert numbers(add(grid([[10], [20]]), grid([[1, 2], [3, 4]]))) == [[11, 12], [23, 24]]


def test_blocks() -> None:
    assert numbers(blocks([[grid([[1], [2]]), grid([[3, 4], [5, 6]])]])) == [[1, 3, 4], [2, 5, 6]]


@pytest.mark.parametrize(
    ("base", "exponent"), [(9, 9**9), (9, -(9**9)), (2, 10**5), (0, -1), (-2, Fraction(1, 2)), (10**300, 1000)]
)
def test_powers_that_are_refused(base: int, exponent: Fraction | int) -> None:
    with pytest.raises(Unevaluated):
        INTERVALS.raised(arb(base), interval(Fraction(exponent)), Fraction(exponent))


def test_powers_and_roots() -> None:
    assert value_of("2^{10}") == 1024
    assert numbers(value_of("[[1, 1], [0, 1]]^3")) == [[1, 3], [0, 1]]
    assert abs(value_of(r"\sqrt[3]{27}") - 3) < 1e-12


def test_division_by_what_may_be_zero() -> None:
    with pytest.raises(Unevaluated, match="division by zero"):
        INTERVALS.divide(arb(1), arb(0))
    with pytest.raises(Unevaluated, match="may be zero"):
        INTERVALS.divide(arb(1), arb(0, 1))


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [(arb(14), None, "14"), (arb(1) / 3, 4, "0.3333"), (arb("-0.5"), None, "-0.5"), (arb(0), 2, "0.00"),
     (arb.neg_inf(), None, "-∞"), (arb.nan(), None, "not a number"), (arb("2.5"), 0, "2")],
)  # fmt: skip
def test_midpoint(value: arb, places: int | None, text: str) -> None:
    assert midpoint(value, places) == text


def test_shape_text() -> None:
    assert shape_text(arb(1)) == "a number"
    assert shape_text(grid([[1, 2]], flat=True)) == "a list of 2"
    assert shape_text(grid([[1, 2]])) == "1×2"
