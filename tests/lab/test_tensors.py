from __future__ import annotations

import pytest
import torch

from glassformer.exercises.exercise import from_data
from glassformer.lab.tensors import exercise, generator, integers, largest, normal
from glassformer.lens.perturb import fitted_exponent


def test_the_same_seed_is_the_same_tensor() -> None:
    assert torch.equal(normal(generator(3), 2, 2), normal(generator(3), 2, 2))
    assert not torch.equal(normal(generator(3), 2, 2), normal(generator(4), 2, 2))


def test_slope_is_the_exponent() -> None:
    assert fitted_exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


def test_small_matrices_come_first() -> None:
    found = list(integers((2, 1), (0, 1, -1)))
    assert found[0] == [[0], [0]]
    assert len(found) == 9
    sizes = [sum(abs(x) for row in rows for x in row) for rows in found]
    assert sizes == sorted(sizes)


def test_largest() -> None:
    assert largest(torch.tensor([1.0, -3.0])) == 3


def test_an_exercise_of_one_head_or_two() -> None:
    head = ([[1]], [[1], [0]], [[1], [2]])
    assert from_data(exercise("t", "x", head)).Q is not None
    assert len(from_data(exercise("t", "x", head, head)).heads) == 2
