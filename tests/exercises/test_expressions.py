"""Expressions are parsed and evaluated in every arithmetic."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS, Mismatch, Unevaluated, interval, midpoint
from glassformer.exercises.evaluation import (
    Axis,
    Value,
    add,
    block_matrix,
    enclose,
    evaluate_expression,
    multiply,
    shape_text,
)
from glassformer.exercises.expression import (
    Array,
    Blank,
    Call,
    Constant,
    Name,
    Negative,
    Power,
    Product,
    Root,
    Struck,
    Sum,
    is_numeric,
    is_struck,
    names_in,
    number,
    parse,
    walk,
)
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact
from glassformer.exercises.reader.statements import parse_formula

GOOD = [
    ("1/2", 0.5),
    ("0.25", 0.25),
    (".5", 0.5),
    ("-3", -3),
    ("2*sqrt(2)/3", 2 * math.sqrt(2) / 3),
    ("2·√3 − 1", 2 * math.sqrt(3) - 1),
    ("e", math.e),
    ("exp(2)", math.exp(2)),
    ("e^2/(e^2 + 2*e + 1)", 0.534446645388523),
    ("1e-5", 1e-5),
    ("2^-2", 0.25),
    ("2**3", 8),
    ("-2^2", -4),
    ("8 - 4 - 2", 2),
    ("8/4/2", 1),
    ("10000^(1/3)", 10000 ** (1 / 3)),
    ("sin(1)*cos(1)", math.sin(1) * math.cos(1)),
    ("1/sqrt(dk)", 0.5),
]
BAD = [
    "",
    "   ",
    "1/0",
    "1/(2-2)",
    "9**9**9",
    "9^99999999999",
    "((9^64)^64)^64",
    "exp(10^64)",
    "sqrt(-1)",
    "(1",
    "1)",
    "1 2",
    "1+",
    "import os",
    "__import__('os')",
    "f(2)",
    "open('x')",
    "nan",
    "inf",
    "0x10",
    "1_000",
    "(" * 1000 + "1" + ")" * 1000,
    "-" * 1500 + "1",
    "1+" * 900 + "1",
    "sqrt(" * 300,
    "9" * 1000,
    "1e99999",
    "1" * 10_000_000,
    "2^(1/99)",
    "2^sqrt(2)",
    "𝟘x",
]


@pytest.mark.parametrize(("text", "value"), GOOD)
def test_values_in_every_arithmetic(text: str, value: float) -> None:
    tree = parse(text)
    exact = evaluate_expression(tree, EXACT, {"dk": Exact(4)})
    assert float(exact) == pytest.approx(value, rel=1e-14)
    assert evaluate_expression(tree, FLOATS, {"dk": 4.0}) == pytest.approx(value, rel=1e-14)
    with INTERVALS.precision():
        assert evaluate_expression(tree, INTERVALS, {"dk": INTERVALS.rational(4)}).overlaps(exact.ball_at(128))


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:12] or "empty")
@pytest.mark.timeout(60)
def test_hostile_texts_are_refused_at_once(text: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate_expression(parse(text), EXACT)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_tree() -> None:
    two = number("2")
    assert parse("-2*x") == Product((Negative(two), Name("x")))
    assert parse("2^-2") == Power(two, Negative(two))
    assert parse("sqrt(2) - e") == Sum((Root(two), Negative(Constant("e"))))


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="dk"):
        evaluate_expression(parse("1/sqrt(dq)"), EXACT, {"dk": Exact(2)})


trees = st.recursive(
    st.integers(0, 9).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
        inner.map(lambda t: f"-({t})"),
        st.tuples(inner, st.integers(-2, 3)).map(lambda t: f"({t[0]})^{t[1]}"),
    ),
    max_leaves=8,
)


@given(trees)
def test_agrees_with_sympy_on_rationals(text: str) -> None:
    wanted = sympy.sympify(text.replace("^", "**"), rational=True)
    if not wanted.is_Rational or wanted in (sympy.zoo, sympy.nan):
        with pytest.raises(InputError):
            evaluate_expression(parse(text), EXACT)
        return
    q = evaluate_expression(parse(text), EXACT).rational()
    assert (int(q.p), int(q.q)) == (wanted.p, wanted.q)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(evaluate_expression(parse(text), EXACT), Exact)


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("0.1967", Fraction(1967, 10000), 4),
        ("0.1050", Fraction(105, 1000), 4),
        ("10", Fraction(10), None),
        (".5", Fraction(1, 2), 1),
        ("3.", Fraction(3), None),
        ("1.2e-3", Fraction(12, 10000), 4),
        ("1.2e3", Fraction(1200), -2),
        ("19.67%", Fraction(1967, 10000), 4),
        ("50%", Fraction(1, 2), None),
    ],
)
def test_written_numbers(text: str, value: Fraction, places: int | None) -> None:
    made = number(text)
    assert (made.text, made.value, made.places) == (text, value, places)
    assert made.unit == (0 if places is None else Fraction(10) ** -places)


@given(st.decimals(0, 10**6, allow_nan=False, places=4))
def test_written_numbers_are_decimals(value: Decimal) -> None:
    assert number(f"{value:f}").value == Fraction(value)


@pytest.mark.parametrize("text", ["9" * 130, "1e999999", "1e-500"])
def test_very_long_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        number(text)


def test_walk_and_what_is_inside() -> None:
    two, q = number("2"), Name("Q", (1,))
    term = Sum((Product((two, q)), Struck(Array(((two, two),)))))
    assert [type(part).__name__ for part in walk(term)] == [
        "Sum", "Product", "Number", "Name", "Struck", "Array", "Number", "Number",
    ]  # fmt: skip
    assert names_in(term) == (q,)
    assert is_struck(term)
    assert not is_struck(term.terms[0])
    assert not is_numeric(term)
    assert is_numeric(term.terms[1])
    assert not is_numeric(Array(((two, Blank()),)))
    assert not is_numeric(Call("sum", (two,), "j"))


def test_ragged_matrices_keep_their_rows() -> None:
    two = number("2")
    matrix = Array(((two, two, two), (two,)))
    assert matrix.ragged
    assert matrix.shape == (2, 3)


def call(function: str, *values: Value, axis: Axis | None = None) -> Value:
    """A function of values that are looked up by name."""
    names = {f"x_{i}": value for i, value in enumerate(values)}
    arguments = tuple(Name("x", (i,)) for i in range(len(values)))
    return evaluate_expression(Call(function, arguments), INTERVALS, names, axis=axis)


def value_of(source: str, **options: object) -> Value:
    return enclose(parse_formula(source).drafts[0].terms[0].term, **options)  # type: ignore[arg-type]


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
        block_matrix([[grid([[1], [2]]), grid([[1]])]])


def test_a_bias_is_added_to_every_row_or_column() -> None:
    assert numbers(add(grid([[1, 2], [3, 4]]), grid([[10, 20]]))) == [[11, 22], [13, 24]]
    assert numbers(add(grid([[10], [20]]), grid([[1, 2], [3, 4]]))) == [[11, 12], [23, 24]]


def test_blocks() -> None:
    assert numbers(block_matrix([[grid([[1], [2]]), grid([[3, 4], [5, 6]])]])) == [[1, 3, 4], [2, 5, 6]]


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
