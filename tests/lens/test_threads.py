"""Several threads may trace and edit one model at the same time: each sees its own runs alone."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glassformer.lens import edit, replace, trace
from glassformer.models import Decoder, decoder

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).eval()


def together(works: list[Callable[[], None]]) -> None:
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], None]) -> None:
        start.wait(timeout=60)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(begin, work) for work in works]:
            done.result(timeout=120)


@torch.no_grad()
def test_two_threads_that_trace_one_model_keep_their_own_passes(model: Decoder) -> None:
    def work(token: int) -> None:
        tokens = torch.full((1, 5 + token), token)
        with torch.no_grad():
            alone = model(tokens)
            with trace(model) as run:
                for _ in range(20):
                    assert torch.equal(model(tokens), alone)
        assert {len(run.passes(path)) for path in run} == {20}
        assert {tuple(kept.shape)[0:2] for kept in run.passes("decoder.0.X")} == {(1, 5 + token)}
        assert len(run) == len(run.paths)

    together([lambda token=token: work(token) for token in range(4)])


def test_edits_of_one_thread_are_not_seen_by_another(model: Decoder) -> None:
    with torch.no_grad():
        plain = model(TOKENS)

    def edited(value: float) -> None:
        with torch.no_grad():
            with edit(model, "decoder.*.attention.H", replace(value)), edit(model, "decoder.0.attention.beta", value):
                first = model(TOKENS)
                for _ in range(20):
                    assert torch.equal(model(TOKENS), first)
            assert not torch.equal(first, plain)

    def untouched() -> None:
        with torch.no_grad():
            for _ in range(40):
                assert torch.equal(model(TOKENS), plain)

    together([lambda: edited(0.0), lambda: edited(0.5), untouched, untouched])
    with torch.no_grad():
        assert torch.equal(model(TOKENS), plain)


@torch.no_grad()
def test_layers_stay_fused_for_threads_that_edit_nothing(model: Decoder) -> None:
    layer = model.decoder.get_submodule("0").attention
    seen: list[bool] = []
    with edit(model, "decoder.0.attention.A", lambda A: A):
        thread = threading.Thread(target=lambda: seen.append(layer.A.edited))
        thread.start()
        thread.join()
        assert layer.A.edited
    assert seen == [False]


@torch.no_grad()
def test_a_thread_in_a_copy_of_the_context_is_traced(model: Decoder) -> None:
    with trace(model, "decoder.0.X") as run, ThreadPoolExecutor(1) as pool:
        pool.submit(torch.no_grad()(model), TOKENS).result()
        assert "decoder.0.X" not in run
        pool.submit(contextvars.copy_context().run, torch.no_grad()(model), TOKENS).result()
    assert len(run.passes("decoder.0.X")) == 1
