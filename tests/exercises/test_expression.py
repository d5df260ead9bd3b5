from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from fractions import Fraction

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS
from glassformer.exercises.evaluation import evaluate
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
from glassformer.exercises.numbers import Exact

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
    exact = evaluate(tree, EXACT, {"dk": Exact(4)})
    assert float(exact) == pytest.approx(value, rel=1e-14)
    assert evaluate(tree, FLOATS, {"dk": 4.0}) == pytest.approx(value, rel=1e-14)
    with INTERVALS.precision():
        assert evaluate(tree, INTERVALS, {"dk": INTERVALS.rational(4)}).overlaps(exact.ball_at(128))


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:12] or "empty")
@pytest.mark.timeout(60)
def test_hostile_texts_are_refused_at_once(text: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(parse(text), EXACT)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_tree() -> None:
    two = number("2")
    assert parse("-2*x") == Product((Negative(two), Name("x")))
    assert parse("2^-2") == Power(two, Negative(two))
    assert parse("sqrt(2) - e") == Sum((Root(two), Negative(Constant("e"))))


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="dk"):
        evaluate(parse("1/sqrt(dq)"), EXACT, {"dk": Exact(2)})


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
            evaluate(parse(text), EXACT)
        return
    q = evaluate(parse(text), EXACT).rational()
    assert (int(q.p), int(q.q)) == (wanted.p, wanted.q)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(evaluate(parse(text), EXACT), Exact)


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
