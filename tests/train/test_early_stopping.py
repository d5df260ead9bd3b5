from __future__ import annotations

import math

import torch

from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.state import Position


def run(
    values: list[float], better: str, patience: int | None, *, keep_best: bool = True
) -> tuple[Position, float | None, list[bool]]:
    weight = {"w": torch.zeros(())}
    stopping, position, stopped = EarlyStopping(patience, better, weight, keep_best=keep_best), Position(), []  # type: ignore[arg-type]
    for i, value in enumerate(values):
        weight["w"].fill_(i)
        position.step, position.val = i, {"first": value, "other": -value}
        stopping.update(position, weight)
        stopped.append(stopping.should_stop(position))
    return position, float(stopping.best["w"]) if stopping.best else None, stopped


def test_higher_and_lower() -> None:
    values = [1.0, 3.0, 2.0, 3.0]
    position, best, stopped = run(values, "higher", 2)
    assert (position.best, position.best_step, position.stale, best) == (3.0, 1, 2, 1.0)
    assert stopped == [False, False, False, True]
    position, best, _ = run(values, "lower", 9)
    assert (position.best, position.best_step, position.stale, best) == (1.0, 0, 3, 0.0)


def test_ties_are_broken_by_the_loss() -> None:
    """The weights of the lowest loss among those with the best metric; a tie is no improvement for patience."""
    weight = {"w": torch.zeros(())}
    stopping, position = EarlyStopping(None, "higher", weight), Position()
    for i, (accuracy, loss) in enumerate([(0.9, 0.5), (1.0, 0.3), (1.0, 0.1), (1.0, 0.2), (0.9, 0.0)]):
        weight["w"].fill_(i)
        position.step, position.val = i, {"accuracy": accuracy, "loss": loss}
        stopping.update(position, weight)
    assert (position.best, position.best_loss, position.best_step, position.stale) == (1.0, 0.1, 2, 3)
    assert float(stopping.best["w"]) == 2


def test_only_the_last_weights_and_no_patience() -> None:
    position, best, stopped = run([3.0, 2.0, 1.0], "higher", None, keep_best=False)
    assert (position.best, best, any(stopped)) == (3.0, None, False)


def test_nan_is_never_the_best() -> None:
    position, best, _ = run([math.nan, 1.0, math.nan], "higher", 5)
    assert (position.best, position.stale, best) == (1.0, 1, 1.0)


def test_nothing_measured() -> None:
    stopping, position = EarlyStopping(1, "higher", {}), Position()
    stopping.update(position, {})
    assert position == Position()
