"""Time t(n, d) and peak memory of one layer, forward and backward, compared with the multiplications of `core.cost`."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from glassformer.core.fused import attend_fused
from glassformer.lab.comparison.networks import LayerUnderTest, build_layer, parameters
from glassformer.lab.comparison.plan import ComparisonPlan, Unit
from glassformer.lab.tensors import generator
from glassformer.nn import View
from glassformer.runtime import interleaved

THREAD_ROUNDS = 5  # in wall-clock time; the fastest round counts, since any disturbance only makes a round slower
SQUARE, LINEAR = "attention: n² part", "attention: projections"
Run = Callable[[], object]


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    cost = plan.cost
    for seed in plan.seeds:
        for n in cost.lengths:
            yield from (Unit("cost", "layer", {"n": n, "d": d}, seed) for d in cost.widths)
        yield Unit("cost", "threads", {"n": cost.thread_length, "d": cost.thread_width}, seed)
    for n in cost.lengths[::2]:  # allocations do not depend on the weights: one seed
        for d in dict.fromkeys((cost.widths[0], cost.widths[-1])):
            yield Unit("cost", "memory", {"n": n, "d": d}, plan.seeds[0])


def weight(plan: ComparisonPlan, unit: Unit) -> float:
    """Return a rough duration in seconds, for the progress bar."""
    n, d = int(unit.settings["n"]), int(unit.settings["d"])
    if unit.part == "memory":  # the profiler records every step of a recurrent layer
        return 0.1 + 2e-3 * n
    once = len(plan.architectures) * (n * d * d + n * n * d / 4) * 1.5e-9
    return once * (THREAD_ROUNDS * len(plan.cost.threads) if unit.part == "threads" else sum(_turns(plan, n, d)))


def _turns(plan: ComparisonPlan, n: int, d: int) -> tuple[int, int]:
    """Return the numbers of measured and warm-up rounds: many for millisecond runs, one for runs that take seconds."""
    size = n * (d * d + 2**14)  # a step of a recurrent layer has a fixed cost at any width
    if size >= 2**27:
        return 1, 0
    return (plan.cost.rounds + 4, 1) if size < 2**23 else (plan.cost.rounds + 1, 1)


def measure(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    n, d = int(unit.settings["n"]), int(unit.settings["d"])
    layers = {name: build_layer(name, d, seed=unit.seed) for name in plan.architectures}
    X = torch.randn(1, n, d, generator=generator(unit.seed))
    match unit.part:
        case "threads":
            return _threads(plan, layers, X)
        case "memory":
            return {"peak": {name: peak_memory(partial(both, each, X)) for name, each in layers.items()}}
    return _times(plan, layers, X)


def _times(plan: ComparisonPlan, layers: Mapping[str, LayerUnderTest], X: Tensor) -> dict[str, Any]:
    """Measure the best processor time of each layer, forward only and with backward, in interleaved rounds."""
    _, n, d = X.shape
    runs: dict[str, Run] = {}
    for name, each in layers.items():
        runs[f"{name}/forward"] = partial(forward, each, X)
        runs[f"{name}/both"] = partial(both, each, X)
    if "Transformer" in layers:
        runs |= _halves(layers["Transformer"].net, X)
    rounds, warm = _turns(plan, n, d)
    times = interleaved(runs, rounds=rounds, warm=warm, clock=time.process_time)
    return {
        "forward": {name: times[f"{name}/forward"] for name in layers},
        "both": {name: times[f"{name}/both"] for name in layers},
        "halves": {name: times[name] for name in (SQUARE, LINEAR) if name in times},
        "multiplications": {name: each.count(n).multiplications for name, each in layers.items()},
        "parameters": {name: parameters(each.net) for name, each in layers.items()},
        "rounds": rounds,
    }


@torch.no_grad()
def forward(each: LayerUnderTest, X: Tensor) -> None:
    each.run(X)


def both(each: LayerUnderTest, X: Tensor) -> None:
    """Run forward, then backward to the weights and the input."""
    X = X.detach().requires_grad_()
    each.run(X).sum().backward()
    each.net.zero_grad()


def _halves(net: Any, X: Tensor) -> dict[str, Run]:
    """Return the parts of self-attention's forward pass: 2n²d for scores and weighted sums, 4nd² for projections."""
    view = View()
    with torch.no_grad():
        Q = net.split(net.WQ(X), net.config.heads)
        K, V = net.project(X, view)

    @torch.no_grad()
    def project() -> None:
        net.WQ(X), net.project(X, view), net.WO(X)

    return {SQUARE: torch.no_grad()(lambda: attend_fused(Q, K, V, beta=net.beta)), LINEAR: project}


def _threads(plan: ComparisonPlan, layers: Mapping[str, LayerUnderTest], X: Tensor) -> dict[str, Any]:
    """Measure the best wall-clock time of each layer with 1, 2, … threads, in interleaved rounds."""
    before = torch.get_num_threads()

    def run(each: LayerUnderTest, threads: int) -> None:
        torch.set_num_threads(threads)
        both(each, X)

    runs: dict[str, Run] = {
        f"{name}/{t}": partial(run, each, t) for t in plan.cost.threads for name, each in layers.items()
    }
    try:
        times = interleaved(runs, rounds=THREAD_ROUNDS, warm=0)
    finally:
        torch.set_num_threads(before)
    return {"both": {name: [times[f"{name}/{t}"] for t in plan.cost.threads] for name in layers}}


def peak_memory(run: Run) -> int:
    """max_t Σ (allocated − freed): peak bytes held by torch's allocator, above what it held at the start.

    Computed from the events of torch's profiler, so that allocations inside kernels count; memory that a kernel library
    requests from the system directly does not.
    """
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")  # the profiler warns about runs that it did not record
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            run()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = (int(event.nbytes()) for event in sorted(events, key=lambda event: event.start_ns()))
    return max(accumulate(changes, initial=0))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the profiler's library, which writes to standard error when it starts and stops."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
