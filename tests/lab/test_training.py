from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor

from glassformer.lab.training import GeneratedExamples, fit
from glassformer.nn import Linear, initialise


def largest(random: torch.Generator) -> tuple[Tensor, Tensor]:
    X = torch.randn(32, 3, generator=random)
    return X, X.argmax(-1)


def net() -> Linear:
    model = Linear(3, 3)
    initialise(model, 0)
    return model


def test_training_learns_and_is_reproducible() -> None:
    one, two = net(), net()
    assert fit(one, largest, steps=100, lr=0.05, seed=3) > 0.9
    fit(two, largest, steps=100, lr=0.05, seed=3)
    assert torch.equal(one.weight, two.weight)
    three = net()
    fit(three, largest, steps=100, lr=0.05, seed=4)
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
        return largest(random)

    with pytest.raises(KeyboardInterrupt):
        fit(net(), stop, steps=50, lr=0.05, seed=0)
