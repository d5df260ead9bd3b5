from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
import sympy
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.numbers import MASKED, Exact, lift
from glassformer.exercises.solution import solve

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
