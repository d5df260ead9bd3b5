from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.lab.comparison.lessons import ASK, ITEMS, WORDS, Pictures, Sequences, before, learn, recall, right
from glassformer.lab.comparison.nets import sequence
from glassformer.lab.parts import generator


def test_recall() -> None:
    X, y = recall(64, 5, generator(0))
    assert X.shape == (64, 6)
    assert torch.equal(X[:, 0], y)
    assert (X[:, 0] < ITEMS).all()
    assert ((X[:, 1:-1] >= ITEMS) & (X[:, 1:-1] < ASK)).all()
    assert (X[:, -1] == ASK).all()


def test_before() -> None:
    X, y = before(64, 5, generator(0))
    assert X.shape == (64, 5)
    assert torch.equal(X[:, 3], y)


def test_batches_are_a_function_of_their_seed() -> None:
    lesson = Sequences(make=recall, length=4, size=3, tests=8, seed=0)
    one, again, other = (lesson.batch(range(3), seed) for seed in (5, 5, 6))
    assert one is not None
    assert again is not None
    assert other is not None
    assert torch.equal(one["X"], again["X"])
    assert not torch.equal(one["X"], other["X"])
    assert lesson.weigh(one) == 3


def test_a_net_learns() -> None:
    net = sequence("MLP", 4_000, words=WORDS, length=3, window=3, seed=0)
    lesson = Sequences(make=recall, length=2, size=16, tests=64, seed=0)
    assert lesson.measure(net)["accuracy"] < 0.6
    assert learn(net, lesson, steps=60, rate=2e-2, seed=0) > 0.95


def test_what_is_interrupted_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    net = sequence("MLP", 4_000, words=WORDS, length=3, window=3, seed=0)

    class Stopped(Sequences):
        def batch(self, rows, seed):  # type: ignore[no-untyped-def]
            signal.raise_signal(signal.SIGINT)
            return super().batch(rows, seed)

    with pytest.raises(KeyboardInterrupt):
        learn(net, Stopped(make=recall, length=2, size=4, tests=8, seed=0), steps=50, rate=1e-2, seed=0)


class Brightest(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return X.flatten(1)


def test_the_share_that_is_right() -> None:
    X, y = torch.eye(4)[:, None, None], torch.tensor([0, 1, 2, 0])
    assert right(Brightest(), X, y) == 0.75
    lesson = Pictures(X=X, y=y, held=(X, y), size=3, seed=0)
    assert sorted(row for rows in lesson.epoch(0) for row in rows) == [0, 1, 2, 3]
    found = lesson.batch([1, 3], 0)
    assert found is not None
    assert found["y"].tolist() == [1, 0]
