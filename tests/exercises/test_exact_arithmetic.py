"""Numbers, matrices and their rounding are exact in every arithmetic."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError, ShapeError
from glassformer.exercises import library, ring, rounding
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS, Arithmetic, IntervalArithmetic
from glassformer.exercises.matrix import Matrix, hstack, vstack
from glassformer.exercises.numbers import MASKED, Exact, lift
from glassformer.exercises.ring import Base
from glassformer.exercises.solution import solve


@pytest.mark.parametrize("arithmetic", [EXACT, INTERVALS, FLOATS], ids=lambda a: a.name)
def test_all_agree(arithmetic: Arithmetic) -> None:
    with arithmetic.precision():
        half = arithmetic.rational(1, 2)
        for value, wanted in [
            (arithmetic.sqrt(half), math.sqrt(0.5)),
            (arithmetic.exp(half), math.exp(0.5)),
            (arithmetic.sin(half), math.sin(0.5)),
            (arithmetic.cos(half), math.cos(0.5)),
            (arithmetic.power(half, 2), 0.25),
            (arithmetic.power(half, 2, 3), 0.5 ** (2 / 3)),
            (arithmetic.absolute(-half), 0.5),
            (arithmetic.maximum(half, arithmetic.rational(0)), 0.5),
            (arithmetic.minimum(half, arithmetic.rational(0)), 0.0),
            (arithmetic.lift(Exact(2).sqrt()), math.sqrt(2)),
        ]:
            assert float(value) == pytest.approx(wanted, rel=1e-15)


def test_balls_hold_their_precision_inside_only() -> None:
    fine = IntervalArithmetic(400)
    with fine.precision():
        third = fine.rational(1, 3)
        assert (third + third).rel_accuracy_bits() > 380
    assert (third + third).rel_accuracy_bits() < 60


def test_floats_do_not_overflow() -> None:
    assert FLOATS.exp(1e6) == math.inf


small = st.integers(-6, 6)
rationals = st.builds(lambda p, q: fmpq(p, q), small, st.integers(1, 6))
surds = st.lists(st.tuples(rationals, st.sampled_from([1, 2, 3, 5, 6, 12])), max_size=3).map(
    lambda terms: sum((Exact(c) * Exact(n).sqrt() for c, n in terms), Exact(0))
)
sums = st.lists(st.tuples(surds, surds), min_size=1, max_size=3).map(
    lambda terms: sum((c * s.exp() for c, s in terms), Exact(0))
)
quotients = st.tuples(sums, sums.filter(bool)).map(lambda pair: pair[0] / pair[1])
numbers = st.one_of(surds, sums, quotients)


def oracle(x: Exact) -> sympy.Expr:
    """Built by sympy from the terms, by its own roots and exponentials."""
    total = sympy.Integer(0)
    for (n, s, atoms), c in x.terms.items():
        term = sympy.Rational(int(c.p), int(c.q)) * sympy.sqrt(n)
        term *= sympy.exp(sum((sympy.Rational(int(q.p), int(q.q)) * sympy.sqrt(m) for m, q in s), sympy.Integer(0)))
        for base, power in atoms:
            term *= oracle(Exact.of(base.argument)) ** power
        total += term
    return total


@given(numbers, numbers)
def test_field(x: Exact, y: Exact) -> None:
    assert x + y == y + x
    assert x * y == y * x
    assert x - y + y == x
    assert x * (y + 1) == x * y + x
    assert (x - x).is_zero()
    if y:
        assert x / y * y == x
        assert hash(x / y * y) == hash(x)


@given(surds, surds)
def test_roots_agree_with_sympy(x: Exact, y: Exact) -> None:
    assert sympy.expand(oracle(x * y) - oracle(x) * oracle(y)) == 0
    if y:
        assert sympy.radsimp(oracle(x / y) - oracle(x) / oracle(y)).equals(0)


@given(numbers, st.integers(0, 25))
def test_decimals_agree_with_sympy(x: Exact, places: int) -> None:
    """Correct rounding: what sympy computes to 60 digits is at most half a unit away."""
    written = Fraction(x.decimal(places))
    exact = Fraction(str(sympy.N(oracle(x), 80)))
    assert abs(written - exact) <= Fraction(1, 2) * Fraction(1, 10**places) + Fraction(1, 10**50)


@given(numbers)
def test_floats_are_the_nearest(x: Exact) -> None:
    assert float(x) == float(Fraction(str(sympy.N(oracle(x), 80))))


@given(numbers)
def test_balls_enclose_and_are_tight(x: Exact) -> None:
    ball = x.ball(30)
    assert ball.overlaps(x.ball_at(400))
    assert not x or ball.rel_accuracy_bits() >= 99
    assert x.sign() == (float(x) > 0) - (float(x) < 0)


def test_canonical() -> None:
    root3 = Exact(3).sqrt()
    assert Exact(12).sqrt().terms == (2 * root3).terms
    assert (1 / root3).terms == (root3 / 3).terms
    assert root3 * root3 == 3
    assert (1 + root3) * (1 - root3) == -2
    assert Exact(2).exp() * Exact(-2).exp() == 1
    assert Exact(2).exp().sqrt() == Exact(1).exp()
    assert Exact(fmpq(8, 9)).sqrt() == 2 * Exact(2).sqrt() / 3


def test_weights_share_a_denominator_and_add_up_to_one() -> None:
    E = [Exact(s).exp() for s in (1, 2, 0, 1)]
    A = [e / sum(E, Exact(0)) for e in E]
    assert sum(A, Exact(0)).rational() == 1
    assert [a.decimal(4) for a in A] == ["0.1966", "0.5344", "0.0723", "0.1966"]
    assert str(2 * A[0] + A[2] + A[3]) == "(3*e + 1)/(e^2 + 2*e + 1)"


def test_equality_across_denominators() -> None:
    e = Exact(1).exp()
    assert 1 / (e * e + e) == 1 / e / (1 + e)
    assert 1 / (e + 1) - 1 / (e + 2) == 1 / ((e + 1) * (e + 2))
    assert 1 / (e + 1) != 1 / (e + 2)
    assert len({1 / (e * e + e), 1 / e / (1 + e)}) == 1


def test_beyond_closed_forms() -> None:
    e = Exact(1).exp()
    x = (1 + 1 / (e + 1)).sqrt()
    assert x * x == 1 + 1 / (e + 1)
    assert (1 / x) ** 2 * (1 + 1 / (e + 1)) == 1
    assert Exact(1).sin() ** 2 + Exact(1).cos() ** 2 == 1
    assert Exact(0).sin() == 0
    assert Exact(0).cos() == 1
    assert Exact(2).root(3) ** 3 == 2
    assert Exact(10000).root(4) == 10


@pytest.mark.parametrize(
    ("value", "places", "written"),
    [(fmpq(1, 8), 2, "0.13"), (fmpq(-1, 8), 2, "-0.13"), (fmpq(5, 2), 0, "3"), (fmpq(1, 3), 3, "0.333"), (0, 1, "0.0")],
)
def test_ties_go_away_from_zero(value: fmpq, places: int, written: str) -> None:
    assert Exact(value).decimal(places) == written


def test_order_and_absolute() -> None:
    assert Exact(2).sqrt() < Exact(fmpq(3, 2)) < Exact(3).sqrt()
    assert abs(1 - Exact(2).sqrt()) == Exact(2).sqrt() - 1
    assert max(Exact(1), Exact(1).exp()) == Exact(1).exp()
    assert Exact(3) >= 3
    assert Exact(3) <= 3


def test_refusals() -> None:
    with pytest.raises(InputError, match="0"):
        Exact(1) / (Exact(2).sqrt() ** 2 - 2)
    with pytest.raises(InputError, match="negative"):
        (1 - Exact(2).sqrt()).sqrt()
    with pytest.raises(InputError, match="power"):
        Exact(10**12).exp()
    with pytest.raises(InputError, match="too large"):
        (Exact(9) ** 9999) ** 9
    with pytest.raises(InputError, match="too large"):
        Exact(2) ** 30_000 * Exact(3) ** 20_000
    assert lift(1.5) is None
    with pytest.raises(TypeError):
        Exact(1) + 0.5  # a float is not exact


def test_masked_is_minus_infinity_in_every_arithmetic() -> None:
    assert (MASKED * Exact(2) + 1) is MASKED
    assert (0.5 * MASKED) is MASKED
    assert float(MASKED) == float("-inf")
    assert MASKED.decimal(3) == str(MASKED) == "-inf"


def test_folding_keeps_the_number_and_shortens_what_follows() -> None:
    x = sum((Exact(i).sqrt() * Exact(i).exp() for i in range(1, 40)), Exact(0))
    folded = x.folded()
    assert len(folded.terms) == 1
    assert folded == x
    assert (folded + 1) * 2 - x * 2 == 2
    assert folded.decimal(20) == x.decimal(20)
    assert Exact(2).sqrt().folded() is not None
    assert Exact(2).sqrt().folded().terms == Exact(2).sqrt().terms


def test_size_grows_with_the_form() -> None:
    e = Exact(1).exp()
    assert Exact(2).size < e.size < (e / (e + 1)).size < (e / (e * e + e + 1)).size


def test_an_exercise_that_was_solved_can_be_pickled() -> None:
    """Exercises are sent to the processes that grade, and come back with the grade."""
    exercise = library.get("root-three")
    numbers = [x for matrix in (exercise.X, exercise.Q) if matrix is not None for _, _, x in matrix.cells()]
    assert numbers
    assert all(x.ball_at(128).is_finite() for x in numbers)
    assert solve(pickle.loads(pickle.dumps(exercise))).values == solve(exercise).values


@given(numbers)
def test_numbers_are_pickled_without_their_cached_intervals(number: Exact) -> None:
    number.decimal(20)  # fills the cache
    again = pickle.loads(pickle.dumps(number))
    assert (again, hash(again), again.decimal(20)) == (number, hash(number), number.decimal(20))
    assert pickle.loads(pickle.dumps(MASKED)) is MASKED


def exponential(power: int) -> ring.Terms:
    return {(1, ((1, fmpq(power)),), ring.NO_ATOMS): fmpq(1)}


@pytest.mark.parametrize(
    ("value", "root"), [(12, (2, 3)), (1, (1, 1)), (49, (7, 1)), (30, (1, 30)), (2**40 * 3, (2**20, 3))]
)
def test_square_roots_leave_a_square_free_number(value: int, root: tuple[int, int]) -> None:
    assert ring.root_of_rational(fmpq(value), 2) == (fmpq(root[0]), root[1])


def test_roots_that_cannot_be_simplified_quickly_are_left() -> None:
    assert ring.root_of_rational(fmpq((2**89 - 1) * (2**61 - 1)), 2) is None
    assert ring.root_of_rational(fmpq(27, 8), 3) == (fmpq(3, 2), 1)
    assert ring.root_of_rational(fmpq(2), 3) is None


def test_long_products_stay_products_with_the_right_value() -> None:
    x = ring.total(exponential(i) for i in range(30))
    square = ring.product(x, x)
    assert len(square) == 1
    assert ring.enclose(square).overlaps(ring.enclose(x) ** 2)


def test_bases_are_equal_by_form() -> None:
    x = ring.total([exponential(1), exponential(2)])
    y = ring.total([exponential(2), exponential(1)])
    assert Base("sum", x) == Base("sum", y)
    assert hash(Base("sum", x)) == hash(Base("sum", y))
    assert Base("sum", x) != Base("exp", x)


def test_a_multiple_of_the_denominator_cancels() -> None:
    x = ring.total([exponential(1), exponential(2)])
    assert ring.product(ring.scaled(x, fmpq(3)), ring.inverse(x)) == ring.constant(3)


def test_cleared_multiplies_out_or_gives_up() -> None:
    x = ring.total([exponential(1), exponential(2)])
    assert ring.cleared(ring.inverse(x)) == ring.constant(1)
    assert ring.cleared(ring.atom(Base("sin", x))) is None


def test_content() -> None:
    x = ring.total([ring.scaled(exponential(1), fmpq(4, 3)), ring.constant(fmpq(2, 9))])
    assert ring.content(x) == fmpq(2, 9)


@given(st.fractions(max_denominator=10**6), st.integers(1, 20))
def test_significant_digits_of_rationals(value: object, digits: int) -> None:
    x = Exact(fmpq(value.numerator, value.denominator))  # type: ignore[attr-defined]
    written = Decimal(rounding.significant(x, digits))
    error = abs(fmpq(*written.as_integer_ratio()) - x.rational())
    if value:
        assert error <= fmpq(10) ** (rounding.magnitude(x) - digits + 1) / 2
    assert len(written.as_tuple().digits) <= max(digits, 22)


@pytest.mark.parametrize(
    ("x", "digits", "written"),
    [
        (Exact(fmpq(1, 3)), 17, "0.33333333333333333"),
        (Exact(fmpq(99996, 100)), 4, "1000"),
        (Exact(0), 5, "0"),
        (Exact(1000).exp(), 4, "1.97e+434"),
        (-Exact(-50).exp(), 3, "-1.93e-22"),
        (Exact(3).sqrt() * 100, 3, "173"),
        (Exact(1200), 6, "1200"),
    ],
)
def test_significant(x: Exact, digits: int, written: str) -> None:
    assert rounding.significant(x, digits) == written


def test_large_numbers_have_all_their_digits() -> None:
    assert (78 / Exact(3).sqrt()).exp().decimal(4) == "36117926567407142757.4390"
    assert Exact(1000).exp().decimal(3) == "1.97e+434"


def test_close_calls_are_decided_by_more_precision() -> None:
    """1 + e^-200 rounds up from a half that no double would see."""
    almost = Exact(fmpq(1, 2)) + Exact(-200).exp()
    assert almost.decimal(0) == "1"
    assert (Exact(fmpq(1, 2)) - Exact(-200).exp()).decimal(0) == "0"


def test_a_tie_beyond_closed_forms_goes_away_from_zero() -> None:
    half = (Exact(1).sin() ** 2 + Exact(1).cos() ** 2) / 2
    assert half.rational() is None
    assert half.decimal(0) == "1"
    assert (-half).decimal(0) == "-1"
    assert half.significant(3) == "0.5"


def test_floats_overflow_to_infinity() -> None:
    assert float(Exact(1000).exp()) == math.inf
    assert float(-(Exact(10) ** 400)) == -math.inf
    assert float(Exact(-2000).exp()) == 0.0
    assert float(Exact(10**9).exp()) == math.inf
    assert float(-Exact(-(10**9)).exp()) == 0.0
    assert Exact(10**9).exp().significant(5) == "8.003e+434294481"


def test_sign_of_nearly_equal_numbers() -> None:
    # 1/(√(10^20 + 1) + 10^10) = √(10^20 + 1) − 10^10, about 5e-11
    x = Exact(10**20 + 1).sqrt() - 10**10
    assert rounding.sign(x) == 1
    assert rounding.sign(-x) == -1
    assert rounding.sign(Exact(0)) == 0


def matrices(n: int, m: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(-9, 9), min_size=m, max_size=m), min_size=n, max_size=n)


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_product_agrees_with_numpy(data: st.DataObject, n: int, k: int, m: int) -> None:
    a, b = data.draw(matrices(n, k)), data.draw(matrices(k, m))
    wanted = (np.array(a) @ np.array(b)).tolist()
    for scalar in (Exact, Fraction, float):
        product = Matrix.of(a).map(scalar) @ Matrix.of(b).map(scalar)
        assert product == Matrix.of(wanted).map(scalar)
    turned = Matrix.of(a).T
    assert [list(row) for row in turned] == np.array(a).T.tolist()


def test_stacking_and_stretching() -> None:
    a, b = Matrix.of([[1, 2], [3, 4]]), Matrix.of([[5], [6]])
    assert hstack([a, b]).rows == ((1, 2, 5), (3, 4, 6))
    assert vstack([a, b.T]).rows == ((1, 2), (3, 4), (5, 6))
    assert (a + b).rows == ((6, 7), (9, 10))
    assert (a - b.T).rows == ((-4, -4), (-2, -2))
    assert a.shape == (2, 2)
    assert a[1, 0] == 3
    assert list(b.cells()) == [(0, 0, 5), (1, 0, 6)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Matrix.of([]), "no entries"),
        (lambda: Matrix.of([[]]), "no entries"),
        (lambda: Matrix.of([[1, 2], [3]]), "row 2 of a matrix has 1 entries"),
        (lambda: Matrix.of([[1, 2]]) @ Matrix.of([[1, 2]]), "1×2 cannot be multiplied by one of 1×2.*needs 2 rows"),
        (lambda: Matrix.of([[1, 2]]) + Matrix.of([[1, 2, 3]]), "cannot be added"),
        (lambda: hstack([Matrix.of([[1]]), Matrix.of([[1], [2]])]), "side by side"),
        (lambda: vstack([Matrix.of([[1]]), Matrix.of([[1, 2]])]), "stacked"),
    ],
)
def test_misfits(make: object, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        make()  # type: ignore[operator]
