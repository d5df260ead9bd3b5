"""The time of one more token after 100, 1,000, 10,000, and what is kept for it: caches, states, buffers, windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.lab.comparison.lessons import WORDS
from glassformer.lab.comparison.nets import answer, parameters, sequence
from glassformer.lab.comparison.plan import Plan, Setting, Unit
from glassformer.lab.parts import generator
from glassformer.models import MLP, ConvNet1d, Decoder, Recurrent
from glassformer.runtime import interleaved

PIECE = 500  # tokens that the past is read in
WINDOWED = "Transformer, window"


def units(plan: Plan, seed: int) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    for after in plan.streaming.after:
        yield "frame", {"after": after}


def weight(plan: Plan, unit: Unit) -> float:
    return 0.5 + 3e-4 * int(unit.settings["after"]) + 0.02 * plan.streaming.rounds


@torch.inference_mode()
def measure(plan: Plan, unit: Unit) -> dict[str, Any]:
    streaming, after = plan.streaming, int(unit.settings["after"])
    X = torch.randint(0, WORDS, (1, after), generator=generator(unit.seed))
    runs: dict[str, Callable[[], object]] = {}
    held, sizes = {}, {}
    for name in (*plan.architectures, *([WINDOWED] if "Transformer" in plan.architectures else [])):
        net = sequence(
            name.partition(",")[0],
            streaming.budget,
            words=WORDS,
            length=after + 1,
            window=streaming.window,
            seed=unit.seed,
            positions="rotary",
            attends=streaming.window if name == WINDOWED else None,
        ).eval()
        runs[name], held[name] = start(net, X, room=streaming.rounds + 2)
        sizes[name] = parameters(net)
    return {
        "frame": interleaved(runs, rounds=streaming.rounds, clock=time.process_time),
        "held": held,
        "parameters": sizes,
    }


def start(net: nn.Module, X: Tensor, *, room: int) -> tuple[Callable[[], object], int]:
    """The network after it has read X: a function that reads one token more, and how many numbers are kept for it."""
    new = X[:, -1:]
    if isinstance(net, Decoder):
        cache = net.cache(X.shape[1] + room)
        for piece in X.split(PIECE, 1):
            net(piece, cache=cache, last=True)
        held = sum(part.numel() for block in cache for part in block.own.kept())
        return lambda: net(new, cache=cache, last=True), held
    if isinstance(net, Recurrent):
        states = net.stream(X).states
        return lambda: net.stream(new, states), sum(part.numel() for state in states for part in state)
    if isinstance(net, ConvNet1d):
        past = net.stream(X).past
        return lambda: net.stream(new, past), sum(part.numel() for part in past)
    assert isinstance(net, MLP)
    window = X[:, -net.config.reads.length :]  # type: ignore[union-attr]
    return lambda: answer(net, window), window.numel()
