from __future__ import annotations

import math

import pytest

from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS, Arithmetic, IntervalArithmetic
from glassformer.exercises.numbers import Exact


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
