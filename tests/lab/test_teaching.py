from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor

from glassformer.lab.teaching import Made, teach
from glassformer.nn import Linear, initialise


def largest(random: torch.Generator) -> tuple[Tensor, Tensor]:
    X = torch.randn(32, 3, generator=random)
    return X, X.argmax(-1)


def net() -> Linear:
    model = Linear(3, 3)
    initialise(model, 0)
    return model


def test_it_learns_and_comes_out_the_same() -> None:
    one, two = net(), net()
    assert teach(one, largest, steps=100, rate=0.05, seed=3) > 0.9
    teach(two, largest, steps=100, rate=0.05, seed=3)
    assert torch.equal(one.weight, two.weight)
    three = net()
    teach(three, largest, steps=100, rate=0.05, seed=4)
    assert not torch.equal(one.weight, three.weight)


def test_every_position_may_answer() -> None:
    model = net()
    lesson = Made(make=lambda random: (torch.ones(2, 5, 3), torch.zeros(2, 5, dtype=torch.long)), ask=model)
    batch = lesson.batch([0], 0)
    assert batch is not None
    assert lesson.weigh(batch) == 10
    each = -model(torch.ones(3)).log_softmax(-1)[0]
    torch.testing.assert_close(lesson.loss(model, batch), 10 * each)


def test_an_interruption_ends_it() -> None:
    def stop(random: torch.Generator) -> tuple[Tensor, Tensor]:
        signal.raise_signal(signal.SIGINT)
        return largest(random)

    with pytest.raises(KeyboardInterrupt):
        teach(net(), stop, steps=50, rate=0.05, seed=0)
