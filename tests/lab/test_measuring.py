"""What experiments measure with: tensors, counts of operations, trained networks."""

from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor

from glassformer.exercises.exercise import from_data
from glassformer.lab.counting import multiplications
from glassformer.lab.tensors import exercise, generator, integers, largest, normal
from glassformer.lab.training import GeneratedExamples, fit
from glassformer.lens.perturb import fitted_exponent
from glassformer.nn import Linear, MultiHeadAttention, heads, initialise


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


def test_a_linear_layer() -> None:
    assert multiplications(Linear(3, 5), torch.zeros(2, 7, 3)) == 2 * 7 * 3 * 5


def test_attention_counts_its_scores_too() -> None:
    layer = MultiHeadAttention(heads(8, 2))
    assert multiplications(layer, torch.zeros(1, 40, 8)) == 4 * 40 * 64 + 2 * 1600 * 8
    assert not layer.A.edited


def label_largest(random: torch.Generator) -> tuple[Tensor, Tensor]:
    X = torch.randn(32, 3, generator=random)
    return X, X.argmax(-1)


def net() -> Linear:
    model = Linear(3, 3)
    initialise(model, 0)
    return model


def test_training_learns_and_is_reproducible() -> None:
    one, two = net(), net()
    assert fit(one, label_largest, steps=100, lr=0.05, seed=3) > 0.9
    fit(two, label_largest, steps=100, lr=0.05, seed=3)
    assert torch.equal(one.weight, two.weight)
    three = net()
    fit(three, label_largest, steps=100, lr=0.05, seed=4)
    assert not torch.equal(one.weight, three.weight)


def test_every_position_has_a_label() -> None:
    model = net()
    objective = GeneratedExamples(
        make=lambda random: (torch.ones(2, 5, 3), torch.zeros(2, 5, dtype=torch.long)), logits=model
    )
    batch = objective.batch([0], 0)
    assert batch is not None
    assert objective.count(batch) == 10
    each = -model(torch.ones(3)).log_softmax(-1)[0]
    torch.testing.assert_close(objective.loss(model, batch), 10 * each)


def test_an_interruption_ends_training() -> None:
    def stop(random: torch.Generator) -> tuple[Tensor, Tensor]:
        signal.raise_signal(signal.SIGINT)
        return label_largest(random)

    with pytest.raises(KeyboardInterrupt):
        fit(net(), stop, steps=50, lr=0.05, seed=0)
