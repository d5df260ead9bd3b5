from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor, nn

from glassformer.lab.comparison.networks import build_sequence_network
from glassformer.lab.comparison.objectives import (
    ASK,
    ITEMS,
    VALIDATION,
    VOCABULARY,
    EvalScore,
    ImageObjective,
    SequenceObjective,
    previous,
    recall,
    score,
    search,
    shifted,
    train_network,
)
from glassformer.lab.tensors import generator


def test_recall() -> None:
    X, y = recall(64, 5, generator(0))
    assert X.shape == (64, 6)
    assert torch.equal(X[:, 0], y)
    assert (X[:, 0] < ITEMS).all()
    assert ((X[:, 1:-1] >= ITEMS) & (X[:, 1:-1] < ASK)).all()
    assert (X[:, -1] == ASK).all()


def test_previous_token() -> None:
    X, y = previous(64, 5, generator(0))
    assert torch.equal(X[:, 3], y)


def test_batches_are_a_function_of_their_seed() -> None:
    objective = SequenceObjective(make=recall, length=12, batch_size=3)
    one, again, other = (objective.batch(range(3), seed) for seed in (5, 5, 6))
    assert one is not None
    assert again is not None
    assert other is not None
    assert torch.equal(one["X"], again["X"])
    assert not torch.equal(one["X"], other["X"])
    assert objective.count(one) == 3
    test, validation = objective.examples(8, 0), objective.examples(8, 0, split=VALIDATION)
    assert not torch.equal(test[0], validation[0])


def test_a_network_learns() -> None:
    net = build_sequence_network("MLP", 4_000, vocabulary=VOCABULARY, length=3, window=3, seed=0)
    objective = SequenceObjective(make=recall, length=2, batch_size=16)
    before = score(net, *objective.examples(64, 0))
    train_network(net, objective, steps=60, lr=2e-2, seed=0)
    after = score(net, *objective.examples(64, 0))
    assert before.accuracy < 0.6
    assert after.accuracy > 0.95
    assert after.loss < before.loss


def test_an_interrupted_training_is_not_a_measurement() -> None:
    net = build_sequence_network("MLP", 4_000, vocabulary=VOCABULARY, length=3, window=3, seed=0)

    class Interrupted(SequenceObjective):
        def batch(self, rows, seed):  # type: ignore[no-untyped-def]
            signal.raise_signal(signal.SIGINT)
            return super().batch(rows, seed)

    with pytest.raises(KeyboardInterrupt):
        train_network(net, Interrupted(make=recall, length=2, batch_size=4), steps=50, lr=1e-2, seed=0)


class Brightest(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return X.flatten(1)


def test_accuracy_and_batches_of_images() -> None:
    X, y = torch.eye(4)[:, None, None], torch.tensor([0, 1, 2, 0])
    assert score(Brightest(), X, y).accuracy == 0.75
    objective = ImageObjective(X=X, y=y, batch_size=3, seed=0)
    assert sorted(row for rows in objective.epoch(0) for row in rows) == [0, 1, 2, 3]
    found = objective.batch([1, 3], 0)
    assert found is not None
    assert found["y"].tolist() == [1, 0]


def test_shifts() -> None:
    X = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert shifted(X, 1, 1)[0, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 3, 4]]
    assert shifted(X, -1, 0)[0, 0].tolist() == [[3, 4, 5], [6, 7, 8], [0, 0, 0]]
    assert torch.equal(shifted(X, 0, 0), X)
    framed = torch.nn.functional.pad(X + 1, (2, 2, 2, 2))
    objective = ImageObjective(X=framed, y=torch.zeros(1, dtype=torch.long), batch_size=1, seed=0, shift=2)
    moved = [objective.batch([0], seed)["X"] for seed in range(9)]  # type: ignore[index]
    assert len({each.numpy().tobytes() for each in moved}) > 1
    assert all(each.sum() == framed.sum() for each in moved)  # nothing leaves the image


def test_the_search_takes_the_best_mean_accuracy_then_the_lower_loss() -> None:
    table = {
        (1e-3, 1): EvalScore(1.0, 0.3),
        (1e-3, 2): EvalScore(0.2, 1.0),
        (1e-2, 1): EvalScore(0.6, 0.2),
        (1e-2, 2): EvalScore(0.6, 0.9),
    }
    found = search((1e-3, 1e-2), (1, 2), lambda lr, case: table[lr, case])
    assert found["lr"] == 1e-2  # a tie of accuracies
    assert len(found["trials"]) == 4
    table[1e-3, 2] = EvalScore(0.3, 9.0)
    assert search((1e-3, 1e-2), (1, 2), lambda lr, case: table[lr, case])["lr"] == 1e-3
