from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.data import order
from glassformer.data.faults import Fault, Faults
from glassformer.data.workers import Flat, prefetch
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.runtime.measure import one_thread


class Rows:
    """Random numbers from the seed, a sum that threads would round otherwise, a fault in every seventh row."""

    def __init__(self, faulty: int = 7) -> None:
        self.faults, self.faulty = Faults(), faulty
        self.faults.count(Fault("counted when it was opened", "line 1"))

    def read(self, row: int) -> Tensor:
        if row % self.faulty == 0:
            raise Fault("a multiple", f"row {row}")
        return torch.full((3,), float(row))

    def batch(self, rows: Sequence[int], seed: int) -> dict[str, Tensor] | None:
        kept = self.faults.each(rows, self.read)
        if not kept:
            return None
        noise = torch.randn(len(kept), 3, generator=torch.Generator().manual_seed(seed))
        large = torch.randn(200, 200, generator=torch.Generator().manual_seed(seed))
        return {"x": torch.stack(kept) + noise, "y": (large @ large).sum()[None]}


def run(objective: Any, workers: int, n: int = 60) -> list[Any]:
    batches = order.batches(n, 4, 0, 0)
    return list(prefetch(objective, batches, order.seeds(len(batches), 0, 0), workers))


def test_the_same_for_any_number_of_workers() -> None:
    objectives = [Rows() for _ in range(3)]
    before = torch.get_rng_state()
    here, one, two = (run(objective, workers) for objective, workers in zip(objectives, (0, 1, 2), strict=True))
    assert torch.equal(torch.get_rng_state(), before), "the model's random numbers stay as they are"
    assert len(here) == 15
    for a, b, c in zip(here, one, two, strict=True):
        assert a.keys() == b.keys() == c.keys()
        assert all(torch.equal(a[key], b[key]) and torch.equal(a[key], c[key]) for key in a)
    for objective in objectives:
        assert objective.faults.counts == {"counted when it was opened": 1, "a multiple": 9}
        assert (objective.faults.tried, objective.faults.failed) == (61, 10)


def test_a_batch_of_which_nothing_is_left_is_none() -> None:
    batches = [[1, 2], [0, 7], [3, 14]]
    for workers in (0, 2):
        made = list(prefetch(Rows(), batches, [0, 1, 2], workers))
        assert [None if batch is None else len(batch["x"]) for batch in made] == [2, None, 1]
        assert list(prefetch(Rows(), [], [], workers)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_data_of_which_most_is_faulty_stops(workers: int) -> None:
    with pytest.raises(InputError, match=r"cannot be used, most of them because of a multiple: .*row"):
        run(Rows(faulty=1), workers, 400)
    with pytest.raises(InputError, match="3 of 3 cannot be used"):
        list(prefetch(Rows(faulty=1), [[1, 2]], [0], workers))


class Mistaken:
    def batch(self, rows: Sequence[int], seed: int) -> None:
        if seed == 1:
            raise ShapeError("a width of 3", "choose 4")
        if seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 3:
            raise ZeroDivisionError("deep inside")


def test_errors_keep_their_kind(refused: Any) -> None:
    for workers in (0, 1):
        refused(ShapeError, "a width of 3: choose 4", lambda w=workers: list(prefetch(Mistaken(), [[0]], [1], w)))
        with pytest.raises(ZeroDivisionError, match="deep inside"):
            list(prefetch(Mistaken(), [[0]], [3], workers))
        text = "none of 1 batches has a row that can be used: check"
        refused(InputError, text, lambda w=workers: list(prefetch(Mistaken(), [[0]], [0], w)))
    refused(InputError, "a data-loading worker ended unexpectedly (", lambda: list(prefetch(Mistaken(), [[0]], [2], 1)))


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_when_the_iterator_is_closed() -> None:
    before = children()
    made = prefetch(Rows(), order.batches(400, 4, 0, 0), range(100), 2)
    next(made)
    assert len(children() - before) == 2
    made.close()
    assert children() == before


class Slow:
    def batch(self, rows: Sequence[int], seed: int) -> dict[str, Tensor]:
        time.sleep(0.01)
        return {"x": torch.tensor([seed])}


def train(how: str, out: Path) -> None:
    """In a process of its own group: reads until it is interrupted; then `out` says how, and which workers live on."""
    os.setsid()
    os.dup2(os.open(out.with_suffix(".err"), os.O_CREAT | os.O_WRONLY), 2)
    before, stopped, told = children(), [], "read all"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if how == "handled":
        signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
    made = prefetch(Slow(), [[i] for i in range(3000)], range(3000), 2)
    try:
        for i, batch in enumerate(made):
            if i == 3:
                out.with_suffix(".ready").touch()
            if stopped:
                told = f"went on: {batch is not None and int(batch['x']) == i}"
                break
        made.close()
    except KeyboardInterrupt:
        told = "interrupted"
    out.write_text(f"{told}, {len(children() - before)} workers")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("how", "told"), [("handled", "went on: True"), ("raised", "interrupted")])
def test_ctrl_c_is_for_the_parent_and_leaves_no_worker(tmp_path: Path, how: str, told: str) -> None:
    """The whole group gets the signal, as from a keyboard."""
    out = tmp_path / "out"
    process = multiprocessing.get_context("fork").Process(target=train, args=(how, out))
    process.start()
    while not out.with_suffix(".ready").exists():
        time.sleep(0.01)
        assert process.is_alive()
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 0
    assert out.read_text() == f"{told}, 0 workers"
    assert out.with_suffix(".err").read_text() == "", "nothing on the terminal"


@pytest.mark.parametrize("x", [torch.tensor(3), torch.zeros(0, 2), torch.tensor([True, False]), torch.rand(3, 4).T])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.int64])
def test_a_tensor_survives_the_pipe(x: Tensor, dtype: torch.dtype | None) -> None:
    x = x if dtype is None else x.to(dtype)
    there = pickle.loads(pickle.dumps(Flat.of(x))).tensor()
    assert there.dtype == x.dtype
    assert torch.equal(there, x)
    there.zero_()  # it may be changed


def test_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_is_refused(refused: Any) -> None:
    refused(ConfigError, "there are 1 batches but 2 seeds: give", lambda: prefetch(Rows(), [[0]], [1, 2], 0))
    refused(ConfigError, "num_workers must be at least 0, got -1: choose", lambda: prefetch(Rows(), [[0]], [1], -1))
