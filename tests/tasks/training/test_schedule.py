"""Oracle: torch's own schedulers, stepped."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR

from glassformer.tasks.training.plan import Optimise
from glassformer.tasks.training.schedule import rate_at

RATE = 0.2


def stepped(make: Any, steps: int) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


def warmed(optimiser: Any, after: Any, warmup: int) -> Any:
    """Up from RATE/warmup to RATE, then `after`."""
    first = LinearLR(optimiser, start_factor=1 / warmup, end_factor=1.0, total_iters=warmup - 1)
    return SequentialLR(optimiser, [first, after], [warmup])


def ours(optimise: Optimise, steps: int) -> list[float]:
    return [rate_at(step, optimise, steps) for step in range(steps)]


@given(st.integers(2, 30), st.integers(1, 60), st.floats(0, 1))
@pytest.mark.filterwarnings("ignore:.*scheduler:UserWarning")
def test_cosine(warmup: int, rest: int, floor: float) -> None:
    steps = warmup + rest

    def make(o: Any) -> Any:
        return warmed(o, CosineAnnealingLR(o, T_max=rest, eta_min=floor * RATE), warmup)

    mine = ours(Optimise(rate=RATE, warmup=warmup, floor=floor), steps)
    assert mine == pytest.approx(stepped(make, steps), rel=1e-9, abs=1e-12)


def test_cosine_without_warming_up() -> None:
    mine = ours(Optimise(rate=RATE), 50)
    assert mine == pytest.approx(stepped(lambda o: CosineAnnealingLR(o, T_max=50), 50), rel=1e-9)
    assert mine[0] == RATE


@given(st.integers(0, 30), st.integers(1, 60))
def test_inverse_square_root(warmup: int, rest: int) -> None:
    """Vaswani's min(s^-½, s·warmup^-3/2), scaled to 1 at its top."""
    w = max(warmup, 1)

    def noam(step: int) -> float:
        return math.sqrt(w) * min((step + 1) ** -0.5, (step + 1) * w**-1.5)

    mine = ours(Optimise(rate=RATE, schedule="inverse_sqrt", warmup=warmup), warmup + rest)
    assert mine == pytest.approx(stepped(lambda o: LambdaLR(o, noam), warmup + rest), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*scheduler:UserWarning")
def test_constant() -> None:
    mine = ours(Optimise(rate=RATE, schedule="constant", warmup=5), 20)
    assert mine == pytest.approx(stepped(lambda o: warmed(o, ConstantLR(o, factor=1.0), 5), 20))


def test_floor_of_the_inverse_square_root() -> None:
    mine = ours(Optimise(rate=1.0, schedule="inverse_sqrt", warmup=1, floor=0.25), 100)
    assert min(mine) == 0.25
    assert mine[15] == pytest.approx(0.25)
    assert mine[14] > 0.25
