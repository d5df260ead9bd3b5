from __future__ import annotations

from typing import Any

import torch

from glassformer.train import Batch, TrainArgs, fit
from glassformer.train.objective import Objective

NEEDED = {"better", "epoch", "batch", "count", "loss", "evaluate"}


def test_the_protocol_is_this() -> None:
    assert {name for name in vars(Objective) if not name.startswith("_")} == NEEDED


class Bare:
    """Nothing but the protocol: anything else that the loop asked for would be an AttributeError."""

    __slots__ = ("asked",)
    better = "lower"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def epoch(self, number: int) -> list[list[int]]:
        self.asked.append(number)
        return [[number, 0], [number, 1], [number, 2]]

    def batch(self, rows: Any, seed: int) -> Batch:
        self.asked.append((tuple(rows), seed))
        return {"x": torch.tensor(rows, dtype=torch.float32)[:, None]}

    def count(self, batch: Batch) -> float:
        return 2.0

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        assert model.training
        return (model(batch["x"]) - 1).square().sum()

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        return {"weight": float(model.weight)}


def test_it_is_all_that_a_lesson_needs() -> None:
    objective = Bare()
    plan = TrainArgs(steps=5, lr=0.1)
    done = fit(torch.nn.Linear(1, 1), objective, plan)  # type: ignore[arg-type]
    rows = [asked[0] for asked in objective.asked if isinstance(asked, tuple)]
    assert rows == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    seeds = [asked[1] for asked in objective.asked if isinstance(asked, tuple)]
    assert len(set(seeds)) == 5, "each batch is augmented in its own way"
    assert done.faults is None
    assert done.stopped == "finished"
    assert list(done.history[-1]["val"]) == ["weight"]
