from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.runtime import card, interleaved


def test_contenders_take_turns_and_the_best_counts() -> None:
    order: list[str] = []
    best = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, warm=1)
    assert order == ["a", "b", "b", "a"] * 2  # nobody always comes after the same other
    assert set(best) == {"a", "b"}
    assert all(seconds >= 0 for seconds in best.values())


def test_another_clock() -> None:
    ticks = iter([0.0, 5.0, 10.0, 12.0, 20.0, 23.0])
    assert interleaved({"a": int}, rounds=2, warm=1, clock=lambda: next(ticks)) == {"a": 2.0}


def test_the_card_names_the_circumstances() -> None:
    assert {"date", "processor", "cores", "threads", "python", "torch", "commit"} == set(card())


def test_nothing_to_measure() -> None:
    with pytest.raises(InputError, match="0 rounds"):
        interleaved({"a": int}, rounds=0)
