"""t(n, d) and memory of one layer, forward and backward: measured beside what `core.cost` counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import cost
from glassformer.core.fused import attend_fused
from glassformer.lab.comparison.memory import peak
from glassformer.lab.comparison.nets import LAYER_KERNEL, RECURRENT, layer, parameters, run_layer
from glassformer.lab.comparison.plan import Plan, Setting, Unit
from glassformer.lab.parts import generator
from glassformer.models.recurrent_cells import Cell
from glassformer.nn import FeedForward, MultiHeadAttention, View
from glassformer.runtime import interleaved

THREAD_ROUNDS = 5  # by the clock on the wall, of which the best counts: what disturbs it makes it longer
SQUARE, LINEAR = "attention: n² part", "attention: projections"
Run = Callable[[], object]


def units(plan: Plan, seed: int) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    for n in plan.cost.lengths:
        for d in plan.cost.widths:
            yield "layer", {"n": n, "d": d}
    if seed == plan.seeds[0]:  # what is allocated does not depend on the weights
        yield from (("memory", {"n": n, "d": d}) for n in plan.cost.lengths[::2] for d in _ends(plan.cost.widths))
    yield "threads", {"n": plan.cost.thread_length, "d": plan.cost.thread_width}


def _ends(widths: tuple[int, ...]) -> tuple[int, ...]:
    """The narrowest and the widest."""
    return tuple(dict.fromkeys((widths[0], widths[-1])))


def weight(plan: Plan, unit: Unit) -> float:
    """Seconds, roughly: for the bar alone."""
    n, d = int(unit.settings["n"]), int(unit.settings["d"])
    if unit.part == "memory":  # the profiler writes down every step of a recurrent layer
        return 0.1 + 2e-3 * n
    once = len(plan.architectures) * (n * d * d + n * n * d / 4) * 1.5e-9
    return once * (THREAD_ROUNDS * len(plan.cost.threads) if unit.part == "threads" else sum(_turns(plan, n, d)))


def _turns(plan: Plan, n: int, d: int) -> tuple[int, int]:
    """Rounds that count and rounds that do not: what takes a millisecond is tried often, what takes seconds once."""
    size = n * (d * d + 2**14)  # a recurrent layer takes its time for a step, however narrow
    if size >= 2**27:
        return 1, 0
    return (plan.cost.rounds + 4, 1) if size < 2**23 else (plan.cost.rounds + 1, 1)


def measure(plan: Plan, unit: Unit) -> dict[str, Any]:
    n, d = int(unit.settings["n"]), int(unit.settings["d"])
    nets = {name: layer(name, d, seed=unit.seed) for name in plan.architectures}
    X = torch.randn(1, n, d, generator=generator(unit.seed))
    match unit.part:
        case "threads":
            return _threads(plan, nets, X)
        case "memory":
            return {"peak": {name: peak(partial(both, net, X)) for name, net in nets.items()}}
    return _times(plan, nets, X)


def _times(plan: Plan, nets: Mapping[str, nn.Module], X: Tensor) -> dict[str, Any]:
    """The best processor time of each, forward and with the way back, all taking turns."""
    _, n, d = X.shape
    runs: dict[str, Run] = {}
    for name, net in nets.items():
        runs[f"{name}/forward"] = partial(forward, net, X)
        runs[f"{name}/both"] = partial(both, net, X)
    if "Transformer" in nets:
        runs |= _halves(nets["Transformer"], X)
    rounds, warm = _turns(plan, n, d)
    times = interleaved(runs, rounds=rounds, warm=warm, clock=time.process_time)
    return {
        "forward": {name: times[f"{name}/forward"] for name in nets},
        "both": {name: times[f"{name}/both"] for name in nets},
        "halves": {name: times[name] for name in (SQUARE, LINEAR) if name in times},
        "multiplications": {name: counted(name, net, n, d).multiplications for name, net in nets.items()},
        "parameters": {name: parameters(net) for name, net in nets.items()},
        "rounds": rounds,
    }


@torch.no_grad()
def forward(net: nn.Module, X: Tensor) -> None:
    run_layer(net, X)


def both(net: nn.Module, X: Tensor) -> None:
    """Forward, then back to the weights and to the input."""
    X = X.detach().requires_grad_()
    run_layer(net, X).sum().backward()
    net.zero_grad()


def _halves(net: nn.Module, X: Tensor) -> dict[str, Run]:
    """Self-attention forward, apart: 2n²d of scores and mixing, 4nd² of projections."""
    assert isinstance(net, MultiHeadAttention)
    view = View()
    with torch.no_grad():
        Q = net.split(net.WQ(X), net.config.heads)
        K, V = net.project(X, view)

    @torch.no_grad()
    def project() -> None:
        net.WQ(X), net.project(X, view), net.WO(X)

    return {SQUARE: torch.no_grad()(lambda: attend_fused(Q, K, V, beta=net.beta)), LINEAR: project}


def _threads(plan: Plan, nets: Mapping[str, nn.Module], X: Tensor) -> dict[str, Any]:
    """The best time of each with 1, 2, … threads, all taking turns."""
    before = torch.get_num_threads()

    def run(net: nn.Module, threads: int) -> None:
        torch.set_num_threads(threads)
        both(net, X)

    runs: dict[str, Run] = {
        f"{name}/{t}": partial(run, net, t) for t in plan.cost.threads for name, net in nets.items()
    }
    try:
        times = interleaved(runs, rounds=THREAD_ROUNDS, warm=0)
    finally:
        torch.set_num_threads(before)
    return {"both": {name: [times[f"{name}/{t}"] for t in plan.cost.threads] for name in nets}}


def counted(architecture: str, net: nn.Module, n: int, d: int) -> cost.Cost:
    """The formula, at the sizes that the budget gave this layer."""
    if isinstance(net, MultiHeadAttention):
        return cost.self_attention(n, d, net.config.heads, fused=True)
    if isinstance(net, Cell):
        return cost.recurrent(n, d, net.width, kind=RECURRENT[architecture])
    if isinstance(net, FeedForward):
        return cost.feed_forward(n, d, net.config.hidden)
    return cost.convolution((n + LAYER_KERNEL - 1,), d, d, LAYER_KERNEL)
