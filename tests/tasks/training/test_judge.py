from __future__ import annotations

import math

import torch

from glassformer.tasks.training.judge import Judge, Place


def run(values: list[float], better: str, patience: int | None) -> tuple[Place, float | None, list[bool]]:
    weight = {"w": torch.zeros(())}
    judge, place, gave_up = Judge(patience, better, weight), Place(), []  # type: ignore[arg-type]
    for i, value in enumerate(values):
        weight["w"].fill_(i)
        place.step, place.held_out = i, {"first": value, "other": -value}
        judge.judge(place, weight)
        gave_up.append(judge.gives_up(place))
    return place, float(judge.best["w"]) if judge.best else None, gave_up


def test_higher_and_lower() -> None:
    values = [1.0, 3.0, 2.0, 3.0]
    place, best, gave_up = run(values, "higher", 2)
    assert (place.best, place.best_step, place.stale, best) == (3.0, 1, 2, 1.0)
    assert gave_up == [False, False, False, True]
    place, best, _ = run(values, "lower", 9)
    assert (place.best, place.best_step, place.stale, best) == (1.0, 0, 3, 0.0)


def test_without_patience_nothing_is_copied_and_nothing_stops() -> None:
    place, best, gave_up = run([3.0, 2.0, 1.0], "higher", None)
    assert (place.best, best, any(gave_up)) == (3.0, None, False)


def test_nan_is_never_the_best() -> None:
    place, best, _ = run([math.nan, 1.0, math.nan], "higher", 5)
    assert (place.best, place.stale, best) == (1.0, 1, 1.0)


def test_nothing_measured() -> None:
    judge, place = Judge(1, "higher", {}), Place()
    judge.judge(place, {})
    assert place == Place()
