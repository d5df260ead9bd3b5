from __future__ import annotations

import random
from itertools import islice
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.train import batches as course
from glassformer.train.batches import jobs, load_batches, mix_seeds, preserve_rng, seed_all


def test_from_any_place_on_it_is_the_same(child: ModuleType) -> None:
    objective = child.Made()
    whole = list(islice(jobs(objective, 3, 0, 0), 14))
    assert [(job.epoch, job.number) for job in whole[:7]] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    for k in range(13):
        epoch, number = whole[k].next
        assert list(islice(jobs(objective, 3, epoch, number), 13 - k)) == whole[k + 1 :]


@given(st.integers(1, 7))
def test_processes_share_the_rows(world: int) -> None:
    class Objective:
        def epoch(self, number: int) -> list[list[int]]:
            return [list(range(10)), [3, 1, 4]]

    parts = [list(islice(jobs(Objective(), 0, 0, 0, rank, world), 2)) for rank in range(world)]  # type: ignore[arg-type]
    for i, whole in enumerate(Objective().epoch(0)):
        assert sorted(row for part in parts for row in part[i].rows) == sorted(whole)
    seeds = {job.seed for part in parts for job in part}
    assert len(seeds) == 2 * world, "no two processes augment alike"


def test_no_batches(refused) -> None:  # type: ignore[no-untyped-def]
    class Empty:
        def epoch(self, number: int) -> list[list[int]]:
            return []

    refused(InputError, "epoch 0 has no batches", lambda: next(jobs(Empty(), 0, 0, 0)))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_made_in_order_over_epochs(child: ModuleType, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(course, "MIN_BATCHES", 7)
    objective = child.Made()
    stream = load_batches(objective, jobs(objective, 0, 0, 2), workers)
    pairs = list(islice(stream, 23))
    stream.close()
    for (job, batch), expected in zip(pairs, jobs(objective, 0, 0, 2), strict=False):
        assert job == expected
        assert batch is not None
        assert torch.equal(batch["X"], objective.X[list(job.rows)])


def test_no_rows_no_batch(child: ModuleType) -> None:
    """The last of 7 rows in threes is alone: the second of two processes has none of it."""
    objective = child.Made(7, 3)
    pairs = list(islice(load_batches(objective, jobs(objective, 0, 0, 0, rank=1, world=2), 0), 6))
    assert [batch is None for _, batch in pairs] == [False, False, True] * 2


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4))
def test_mixed_is_a_seed_for_all(numbers: list[int]) -> None:
    seed = mix_seeds(*numbers)
    assert 0 <= seed < 2**63
    assert seed == mix_seeds(*numbers)
    assert seed != mix_seeds(*numbers[:-1], numbers[-1] + 1)
    assert seed != mix_seeds(*numbers, 0)


def draws() -> tuple[float, float, float]:
    return float(torch.rand(())), random.random(), float(np.random.rand())


def test_every_random_state_is_seeded_and_then_given_back() -> None:
    before = torch.get_rng_state(), random.getstate()
    with preserve_rng():
        seed_all(5)
        first = draws()
        seed_all(5)
        assert draws() == first
        seed_all(6)
        assert not any(a == b for a, b in zip(draws(), first, strict=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
