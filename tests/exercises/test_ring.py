from __future__ import annotations

import pytest
from flint import fmpq

from glassformer.exercises import ring
from glassformer.exercises.ring import Base


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
